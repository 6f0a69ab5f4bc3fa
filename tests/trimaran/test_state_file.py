import os
import subprocess
import sys
from dataclasses import replace

import pytest

from trimaran.errors.user_error import UserError
from trimaran.local import state_file
from trimaran.local.start_failure import error_at_its_end
from trimaran.local.state_file import ClusterState, NodeState, is_alive, start_time


def state(pid, started):
    node = NodeState(1, "controller-1", "controller", "127.0.0.1:9", pid, started, "d", "running")
    return ClusterState("id", "b", "c", None, "socket", pid, started, {"a": "b"}, (node,))


def test_written_state_is_read_back(tmp_path):
    written = state(os.getpid(), start_time(os.getpid()))
    state_file.write(tmp_path, written)
    assert state_file.read(tmp_path) == written
    assert state_file.read(tmp_path).is_up()


def test_process_is_identified_by_start_time_too():
    assert is_alive(os.getpid(), start_time(os.getpid()))
    assert not is_alive(os.getpid(), (start_time(os.getpid()) or 0) + 1)


def test_zombie_process_is_not_alive():
    child = subprocess.Popen([sys.executable, "-c", ""])
    started = start_time(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) == started
    assert not is_alive(child.pid, started)
    child.wait()


def test_nodes_of_dead_supervisor_are_stopped(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    state_file.write(tmp_path, state(gone.pid, 1))
    found = state_file.read(tmp_path)
    assert not found.is_up()
    assert (found.nodes[0].pid, found.nodes[0].state) == (None, "stopped")


def test_unrecorded_exit_of_node_is_detected(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    written = state(os.getpid(), start_time(os.getpid()))
    nodes = (replace(written.nodes[0], pid=gone.pid, started=1), *written.nodes)
    state_file.write(tmp_path, replace(written, nodes=nodes))
    found = state_file.read(tmp_path).nodes
    assert [(process.pid, process.state) for process in found] == [
        (None, "dead"),
        (os.getpid(), "running"),
    ]


def test_directory_without_cluster_explains_start(tmp_path):
    with pytest.raises(UserError, match="no local cluster") as caught:
        state_file.read(tmp_path)
    assert "trimaran up" in caught.value.fix


def test_nodes_are_found_by_id_and_by_name():
    found = state(1, 1)
    assert found.node("1") is found.node("controller-1") is found.nodes[0]
    assert found.node("7") is None


def test_plan_of_started_cluster_is_recovered(tmp_path):
    plan = state_file.plan_of(tmp_path, state(1, 1))
    assert plan.settings == {"a": "b"}
    assert [(n.name, n.id, n.port) for n in plan.nodes] == [("controller-1", 1, 9)]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"nodes": [{}]}', '{"nodes": []}'])
def test_foreign_users_file_is_reported(tmp_path, text):
    (tmp_path / state_file.FILE_NAME).write_text(text)
    with pytest.raises(UserError, match="is not what trimaran up wrote"):
        state_file.read(tmp_path)


def test_reason_of_nodes_end_is_in_log(tmp_path):
    log = tmp_path / "broker-11.log"
    assert error_at_its_end(log) is None
    log.write_text("started\n")
    assert error_at_its_end(log) is None, "it was killed"
    log.write_text("started\nerror: its log directory failed\n  why: disk full\n  fix: free it\n")
    assert error_at_its_end(log) == "its log directory failed: disk full"
