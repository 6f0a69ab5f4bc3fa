"""Error messages of `up` when it cannot start, and the absence of leftovers."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, LocalCluster, ended_with_its_block, trimaran, until
from trimaran.errors.user_error import Exit
from trimaran.local import state_file
from trimaran.local.lock import ClusterLock
from trimaran.local.state_file import is_alive

SMALL = ("--controllers", "1", "--brokers", "1")


def three_lines(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "fix"]
    return done.stderr


def test_taken_port_is_named_and_nothing_runs(tmp_path):
    with LocalCluster(tmp_path, *SMALL) as cluster:
        cluster.run("down")
        host, port = cluster.bootstrap.split(":")
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((host, int(port)))
            taken.listen()
            for _ in range(2):
                done = cluster.run("up", "-d", check=False)
                assert done.returncode == Exit.NO
                said = three_lines(done)
                assert "broker-11 exited during startup" in said
                assert f"cannot listen on {cluster.bootstrap}" in said
                assert f"process {os.getpid()}" in said
                assert not cluster.state.is_up()
                assert {node.pid for node in cluster.state.nodes} == {None}
        cluster.run("up", "-d")
        until(lambda: cluster.roles()[11] == "active", "it serves once the port is free")


def test_directory_with_running_start_is_left_alone(tmp_path):
    with ClusterLock(tmp_path):
        done = trimaran("up", "-d", "--data", tmp_path, check=False)
    assert done.returncode == Exit.NO
    assert "being started" in three_lines(done)
    assert {path.name for path in tmp_path.iterdir()} == {"supervisor.lock"}


def test_directory_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    done = trimaran("up", "-d", "--data", tmp_path / "file" / "data", check=False)
    assert done.returncode == Exit.USAGE
    three_lines(done)


@pytest.mark.parametrize(
    "options",
    [
        ("--controllers", "0"),
        ("--brokers", "-1"),
        ("--override", "no-equals-sign"),
        ("--override", "log.segment.bytes=0"),
    ],
)
def test_impossible_options_are_refused_without_formatting(tmp_path, options):
    done = trimaran("up", "-d", "--data", tmp_path, *options, check=False)
    assert done.returncode == Exit.USAGE
    three_lines(done)
    assert {path.name for path in tmp_path.iterdir()} <= {"supervisor.lock"}


def test_ctrl_c_stops_a_cluster_in_the_foreground(tmp_path):
    command = [sys.executable, "-m", "trimaran", "up", *SMALL, "--data", str(tmp_path)]
    begun = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with ended_with_its_block(begun) as process:
        until(lambda: "ready in" in process.stderr.readline(), "the line that says ready")
        nodes = state_file.read(tmp_path).nodes
        assert all(is_alive(node.pid, node.started) for node in nodes)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == Exit.OK
    assert not any(is_alive(node.pid, node.started) for node in nodes)
    assert [node.state for node in state_file.read(tmp_path).nodes] == ["stopped"] * 2


def test_temporary_cluster_is_removed_after_its_end(tmp_path):
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "trimaran", "up", *SMALL, "--tmp"]
    begun = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended_with_its_block(begun) as process:
        until(lambda: "ready in" in process.stderr.readline(), "the line that says ready", 60)
        # If the path of the directory is too long for a socket, the socket has its own directory next to it.
        (data,) = (path for path in tmp_path.glob("trimaran-*") if path.is_dir())
        state = state_file.read(data)
        assert process.stderr.readline() == f"next:  export TRIMARAN_BOOTSTRAP={state.bootstrap}\n"
        trimaran("topics", "create", "t", "-b", state.bootstrap)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == Exit.OK
    assert not any(is_alive(node.pid, node.started) for node in state.nodes)
    assert list(tmp_path.glob("trimaran-*")) == []


@pytest.mark.parametrize("options", [("-d",), ("--data", "d")])
def test_temporary_cluster_accepts_no_directory_or_background(tmp_path, options):
    done = trimaran("up", "--tmp", *options, check=False)
    assert done.returncode == Exit.USAGE
    assert "--tmp" in three_lines(done)


def test_node_inherits_no_descriptors_of_others(tmp_path):
    with LocalCluster(tmp_path, *SMALL) as cluster:
        for node in cluster.state.nodes:
            names = [os.readlink(fd) for fd in Path(f"/proc/{node.pid}/fd").iterdir()]
            others = [n for n in names if n.startswith("/") and tmp_path.name in n]
            own = (node.dir + "/", node.dir + ".log")
            assert [n for n in others if not n.startswith(own)] == []
            assert [n for n in names if n.startswith("pipe:")] == []


def test_dynamic_quorum_keeps_voters_over_restarts(tmp_path):
    with LocalCluster(tmp_path, *SMALL) as cluster:
        levels = {row["feature"]: row["level"] for row in cluster.json("features", "list")}
        assert levels["kraft.version"] == 1
        cluster.run("down")
        cluster.run("up", "-d")
        assert cluster.json("quorum", "status")["replicas"][0]["role"] == "leader"
        assert cluster.json("metadata", "image")["voters"][0]["voter_id"] == 1


def test_quorum_kind_is_fixed_at_first_start(tmp_path):
    with LocalCluster(tmp_path, *SMALL) as cluster:
        cluster.run("down")
        done = cluster.run("up", "-d", "--static-quorum", check=False)
        assert done.returncode == Exit.USAGE
        three_lines(done)
