"""`zk start` and `zk mirror`: how they stop, and what they do without a server or port that they need."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from tests.cluster.processes import ROOT, LocalCluster, trimaran, until
from tests.zkcompat.conftest import needs_zookeeper
from trimaran.errors.ports import listener_on
from trimaran.errors.user_error import Exit
from trimaran.node.runtime.ports import HOST, port_of, reserve


@contextlib.contextmanager
def started(*words):
    with subprocess.Popen(
        [sys.executable, "-m", "trimaran", "zk", *map(str, words)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


@contextlib.contextmanager
def kazoo(connect):
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGINT,
        pytest.param(
            signal.SIGKILL,
            marks=pytest.mark.skipif(sys.platform != "linux", reason="on Linux only"),
        ),
    ],
)
def test_zookeeper_ends_with_its_command(tmp_path, number):
    needs_zookeeper()
    with reserve() as held:
        port = port_of(held)
        with started("start", "--port", port, "--data", tmp_path) as process:
            assert f"ready at {HOST}:{port}" in process.stderr.readline()
            process.send_signal(number)
            process.wait(30)
        until(lambda: listener_on(port) is None, "the port is free")


def test_taken_port_is_reported(tmp_path):
    needs_zookeeper()
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = trimaran("zk", "start", "--port", port, "--data", tmp_path, check=False)
    assert done.returncode == Exit.NO
    assert f"cannot listen on {HOST}:{port}" in done.stderr


def test_waiting_mirror_names_its_reason_at_once(tmp_path):
    with LocalCluster(tmp_path / "cluster", "--controllers", "1", "--brokers", "0") as cluster:
        words = ("mirror", "-B", cluster.controllers, "-z", f"{HOST}:1", "--state", tmp_path)
        with started(*words) as process:
            assert "mirroring" in process.stderr.readline()
            assert (
                f"ZooKeeper at {HOST}:1 does not answer; retrying all" in process.stderr.readline()
            )
            process.terminate()
            assert process.wait(30) == Exit.OK
    with started("mirror", "-B", f"{HOST}:1", "-z", f"{HOST}:1", "--state", tmp_path) as process:
        assert "mirroring" in process.stderr.readline()
        assert "no controller answers" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == Exit.OK


def test_zk_commands_show_and_compare_tree(tmp_path):
    needs_zookeeper()
    options = ("--controllers", "1", "--brokers", "1")
    with LocalCluster(tmp_path / "cluster", *options) as cluster:
        cluster.run("up", "--zk")  # the running cluster gets a ZooKeeper

        def zk(*words):
            return cluster.run("zk", *words, check=False)

        until(lambda: zk("verify").returncode == Exit.OK, "it is in step")
        assert "quorum_alive" in zk("status").stdout
        assert json.loads(zk("resync", "-o", "json").stdout) == {"compared": True}
        planned = zk("resync", "--dry-run", "-o", "json")
        assert (planned.returncode, json.loads(planned.stdout)) == (Exit.OK, [])
        published = json.loads(zk("status", "-o", "json").stdout)["published_offset"]
        then = zk("diff", "--at", str(published))
        assert (then.returncode, "with offset" in then.stdout) == (Exit.OK, True), then
        missing = zk("tree", "/nowhere")
        assert (missing.returncode, missing.stderr) == (Exit.NO, "/nowhere does not exist\n")
        relative = zk("get", "brokers/ids")
        assert relative.returncode == Exit.USAGE
        assert "begin with a slash" in relative.stderr
        upwards = zk("tree", "/brokers/../admin")
        assert (upwards.returncode, "cannot be empty, . or .." in upwards.stderr) == (
            Exit.USAGE,
            True,
        )
        with kazoo(cluster.state.zookeeper) as client:
            client.create("/locked", b"x", acl=[make_digest_acl("owner", "secret", all=True)])
            client.create("/lines", b"one\n\x1b[2Jtwo")
        locked = zk("get", "/locked")
        assert (locked.returncode, "ZooKeeper refused access" in locked.stderr) == (
            Exit.REFUSED,
            True,
        )
        assert "no permission to read it: NoAuth" in zk("tree", "/locked").stdout
        assert zk("tree", "/lines").stdout == "/lines  one\\n\\x1b[2Jtwo\n"
