"""Failures around the supervisor of a local cluster: no node is forgotten or left running."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, LocalCluster, ended_with_its_block, trimaran, until
from trimaran.errors.user_error import Exit
from trimaran.local import state_file
from trimaran.local.state_file import ClusterState, NodeState, is_alive, start_time

SMALL = ("--controllers", "1", "--brokers", "1")
# The brokers serve, but clients without a login do not see the cluster.
NEVER_READY = (
    "--override=listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "--override=sasl.enabled.mechanisms=PLAIN",
    "--override=sasl.mechanism.inter.broker.protocol=PLAIN",
    "--override=listener.name.plaintext.plain.sasl.jaas.config="
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="a" password="b" user_a="b";',
)
END_SECONDS = 90  # each role has 15 seconds to stop
FULL = Path("/dev/full")  # every write to it fails with ENOSPC
needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="nodes end with it on Linux only")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("supervisor"), *SMALL) as cluster:
        yield cluster


def alive(nodes):
    return [node.name for node in nodes if node.pid and is_alive(node.pid, node.started)]


@contextmanager
def begin(data, *options):
    """Starts `up` without waiting for readiness; yields its process once the supervisor's state file exists."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trimaran", "up", *options, *SMALL, "--data", str(data)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended_with_its_block(process):
        try:
            until((data / state_file.FILE_NAME).exists, "cluster.json")
            yield process
        finally:
            if "-d" in options and (data / state_file.FILE_NAME).exists():
                trimaran("down", "--data", data, check=False)


@needs_dev_full
def test_full_disk_does_not_disturb_supervisor(cluster):
    supervisor = cluster.state.supervisor_pid
    temporary = cluster.data / (state_file.FILE_NAME + ".tmp")
    temporary.symlink_to(FULL)
    stale = cluster.node(11)
    cluster.kill(11)
    cluster.restart(11)
    assert (cluster.node(11).pid, cluster.node(11).state) == (None, "dead"), "as the file knows it"
    assert not alive([stale])
    temporary.unlink()
    until(
        lambda: alive(cluster.state.nodes) == ["controller-1", "broker-11"],
        "cluster.json is true again",
    )
    assert cluster.state.supervisor_pid == supervisor
    log = cluster.data / "supervisor.log"
    until(lambda: "is up to date again" in log.read_text(), "the end of it is told, too")
    assert log.read_text().count("cannot write cluster.json") == 1


@pytest.mark.parametrize("bytes_sent", [b"\n", b"3\n", b"[]\n", b"\xff\xfe\n", b"{", b""])
def test_rubbish_on_supervisor_socket_is_harmless(cluster, bytes_sent):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(cluster.state.control)
        connection.sendall(bytes_sent)
        connection.shutdown(socket.SHUT_WR)
        assert b'"ok": false' in connection.recv(4096)
    assert cluster.state.is_up()


def test_disconnecting_client_does_not_disturb_supervisor(cluster):
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(cluster.state.control)
    assert cluster.run("chaos", "resume", 11).returncode == 0


@needs_dev_full
def test_full_log_disk_stops_no_node(cluster):
    cluster.run("down")
    logs = [cluster.data / name for name in ("supervisor.log", "broker-11.log", "controller-1.log")]
    for log in logs:
        log.rename(log.with_suffix(".kept"))
        log.symlink_to(FULL)
    cluster.run("up", "-d")
    cluster.kill(11)
    cluster.restart(11)
    until(lambda: cluster.roles()[11] == "active", "it serves")
    nodes = cluster.state.nodes
    cluster.run("down")
    assert not alive(nodes)
    for log in logs:
        log.unlink()


@needs_dev_full
def test_cluster_does_not_start_without_state_file(cluster):
    cluster.run("down", check=False)
    temporary = cluster.data / (state_file.FILE_NAME + ".tmp")
    temporary.symlink_to(FULL)
    done = cluster.run("up", "-d", check=False)
    assert done.returncode == Exit.NO
    assert "No space left on device" in done.stderr
    temporary.unlink()
    assert "not running" in cluster.run("down").stderr
    for node in ("11", "leader"):
        assert "is not running" in cluster.run("chaos", "kill", node, check=False).stderr
    cluster.run("up", "-d")


@needs_linux
def test_killed_supervisor_ends_even_frozen_nodes(cluster):
    cluster.run("chaos", "pause", 11)
    state = cluster.state
    os.kill(state.supervisor_pid, signal.SIGKILL)
    until(lambda: not alive(state.nodes), "the nodes have ended")
    assert {node.state for node in cluster.state.nodes} == {"stopped"}
    cluster.run("up", "-d")


def test_orphaned_node_is_reported_and_stopped(tmp_path):
    with subprocess.Popen(["sleep", "100"]) as orphan, subprocess.Popen(["true"]) as supervisor:
        supervisor.wait()
        node = NodeState(
            11,
            "broker-11",
            "broker",
            "127.0.0.1:1",
            orphan.pid,
            start_time(orphan.pid),
            str(tmp_path / "broker-11"),
            "running",
        )
        state = ClusterState("id", "b", "c", None, "socket", supervisor.pid, 1, {}, (node,))
        state_file.write(tmp_path, state)
        assert "trimaran down" in trimaran("ps", "--data", tmp_path).stderr
        second = trimaran("up", "-d", "--data", tmp_path, check=False)
        assert second.returncode == Exit.NO
        assert f"broker-11 (pid {orphan.pid})" in second.stderr
        trimaran("down", "--data", tmp_path)
        assert orphan.wait(0) == -signal.SIGTERM


def test_reused_pid_is_left_alone(tmp_path):
    with subprocess.Popen(["sleep", "100"]) as stranger:
        pid, started = stranger.pid, start_time(stranger.pid)
        node = NodeState(
            11, "broker-11", "broker", "127.0.0.1:1", pid, started - 1, str(tmp_path), "running"
        )
        state = ClusterState("id", "b", "c", None, "socket", pid, started - 1, {}, (node,))
        state_file.write(tmp_path, state)
        assert "not running" in trimaran("down", "--data", tmp_path).stderr
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_all_nodes(cluster, number):
    cluster.run("up", "-d", check=False)
    state = cluster.state
    os.kill(state.supervisor_pid, number)
    until(lambda: not state.is_up(), "it has ended")
    assert not alive(state.nodes)
    assert [node.state for node in cluster.state.nodes] == ["stopped"] * 2


def test_down_stops_a_starting_cluster(tmp_path):
    with begin(tmp_path, "-d") as starting:
        assert trimaran("down", "--data", tmp_path).stderr == "stopped\n"
        _, said = starting.communicate(timeout=END_SECONDS)
        nodes = state_file.read(tmp_path).nodes
        assert not alive(nodes)
    if starting.returncode:  # otherwise it was ready before `down`
        assert "was stopped while it started" in said


@pytest.mark.parametrize("detached", [["-d"], []], ids=["detached", "in the foreground"])
def test_down_works_before_brokers_see_each_other(tmp_path, detached):
    with begin(tmp_path, *detached, *NEVER_READY) as starting:
        until(
            lambda: all(node.state == "running" for node in state_file.read(tmp_path).nodes),
            "all serve",
        )
        assert trimaran("down", "--data", tmp_path).stderr == "stopped\n"
        _, said = starting.communicate(timeout=END_SECONDS)
    assert "was stopped while it started" in said
    assert starting.returncode == Exit.NO
    assert not alive(state_file.read(tmp_path).nodes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up_leaves_no_cluster(tmp_path, number):
    with begin(tmp_path, "-d", *NEVER_READY) as starting:
        nodes = until(lambda: all_begun(tmp_path), "both nodes have begun")
        starting.send_signal(number)
        _, said = starting.communicate(timeout=END_SECONDS)
    assert starting.returncode == 128 + number, said
    assert not alive(nodes)
    left = {path.name for path in tmp_path.iterdir()}
    of_nodes = {"controller-1.log", "broker-11.log"}  # a node stopped early has none yet
    assert left - of_nodes == {"supervisor.lock", "supervisor.log"}


def all_begun(data):
    nodes = state_file.read(data).nodes
    return nodes if all(node.pid for node in nodes) else None


def test_nohup_is_respected(tmp_path):
    ignoring = (
        f"trap '' HUP; exec {sys.executable} -m trimaran up {' '.join(SMALL)} --data {tmp_path}"
    )
    begun = subprocess.Popen(
        ["sh", "-c", ignoring], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with ended_with_its_block(begun) as process:
        until((tmp_path / state_file.FILE_NAME).exists, "cluster.json")
        until(
            lambda: not any(n.state != "running" for n in state_file.read(tmp_path).nodes), "ready"
        )
        process.send_signal(signal.SIGHUP)
        trimaran("chaos", "resume", 11, "--data", tmp_path)
        trimaran("down", "--data", tmp_path)
        assert process.wait(END_SECONDS) == Exit.OK


def test_closed_output_reader_does_not_stop_supervisor(tmp_path):
    """An example is `trimaran up | head -1`."""
    begun = subprocess.Popen(
        [sys.executable, "-m", "trimaran", "up", *SMALL, "--data", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended_with_its_block(begun) as process:
        process.stdout.close()
        assert "ready in" in process.stderr.readline()
        process.stderr.close()
        trimaran("chaos", "restart", "11", "--data", tmp_path)
        assert state_file.read(tmp_path).is_up()
        trimaran("down", "--data", tmp_path)
        assert process.wait(END_SECONDS) == Exit.OK
