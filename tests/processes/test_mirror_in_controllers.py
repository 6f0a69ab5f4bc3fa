"""The mirror inside the controllers: the active controller mirrors, and the other controllers are on standby."""

import json

import pytest
from kazoo.client import KazooClient

from tests.cluster.processes import LocalCluster, until
from tests.zkcompat.conftest import needs_zookeeper
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """Starts three controllers that mirror into a real ZooKeeper; yields the cluster and ZooKeeper's address."""
    needs_zookeeper()
    folder = tmp_path_factory.mktemp("controllers")
    server = start_zookeeper(folder / "zookeeper")
    connect = f"{server.connect}/kafka"
    options = ["--controllers", "3", "--brokers", "1"]
    for setting in (
        "trimaran.zk.mirror.enable=true",
        f"zookeeper.connect={connect}",
        "zookeeper.session.timeout.ms=6000",
        "trimaran.zk.legacy.admin.enable=true",
    ):
        options += ["--override", setting]
    try:
        with LocalCluster(folder / "cluster", *options) as cluster:
            yield cluster, connect
    finally:
        server.stop()


def status(cluster, connect):
    done = cluster.run("zk", "status", "-z", connect, "-o", "json", check=False)
    return json.loads(done.stdout) if done.stdout else {}


def led_by(cluster, connect, leader):
    """Waits until this controller is the active mirror; returns the status."""

    def found():
        now = status(cluster, connect)
        is_led = now.get("controller_id") == leader and now.get("mirror_alive")
        return now if is_led and now["mirror"]["state"] == "in step" else None

    return until(found, f"controller {leader} mirrors", 30.0)


def verified(cluster, connect):
    done = cluster.run("zk", "verify", "-z", connect, check=False)
    return done.returncode == 0, done.stdout


def test_active_controller_mirrors_and_its_successor_continues(mirrored):
    cluster, connect = mirrored
    cluster.run("topics", "create", "orders", "--partitions", "3")
    first = cluster.active_controller()
    found = led_by(cluster, connect, first)
    until(lambda: len(status(cluster, connect)["standbys"]) == 2, "two stand by")
    assert found["quorum_alive"]
    assert verified(cluster, connect)[0], verified(cluster, connect)
    claims = found["controller_epoch"]

    cluster.kill(f"controller-{first}")
    second = until(
        lambda: next((i for i, r in cluster.roles().items() if r == "leader" and i != first), None),
        "a successor",
    )
    found = led_by(cluster, connect, second)
    assert found["controller_epoch"] > claims
    cluster.run("topics", "create", "payments")
    until(lambda: status(cluster, connect)["topics"] >= 2, "the new topic in ZooKeeper")
    assert verified(cluster, connect)[0], verified(cluster, connect)
    assert [int(b) for b in found["live_brokers"]] == sorted(
        int(node.id) for node in cluster.state.nodes if node.role == "broker"
    )


def test_writes_of_old_tools_are_carried_out(mirrored):
    """The mirror sends the tool's requests to its own node, the active controller."""
    cluster, connect = mirrored
    led_by(cluster, connect, cluster.active_controller())
    tool = KazooClient(hosts=connect)
    tool.start()
    try:
        tool.create("/brokers/topics/by-a-tool", b'{"version":1,"partitions":{"0":[11],"1":[11]}}')
        until(lambda: "by-a-tool" in topics(cluster), "it is created")
        until(lambda: tool.exists("/brokers/topics/by-a-tool/partitions/1/state"), "and shown")
        tool.create("/admin/delete_topics/by-a-tool")
        until(lambda: "by-a-tool" not in topics(cluster), "it is deleted")
        until(lambda: not tool.exists("/admin/delete_topics/by-a-tool"), "nobody waits for it")
    finally:
        tool.stop()
        tool.close()


def topics(cluster):
    return cluster.run("topics", "list").stdout.split()


def test_resync_compares_the_whole_tree(mirrored):
    cluster, connect = mirrored
    assert cluster.run("zk", "resync", "-z", connect).returncode == 0
    done = cluster.run("zk", "resync", "--dry-run", "-z", connect)
    assert done.stdout == ""
    assert "0 operations would be written" in done.stderr


def test_tree_is_compared_with_older_image(mirrored):
    cluster, connect = mirrored
    before = status(cluster, connect)["published_offset"]
    topics = status(cluster, connect)["topics"]
    cluster.run("topics", "create", "later")
    until(lambda: status(cluster, connect)["topics"] > topics, "the new topic in ZooKeeper")
    newest = status(cluster, connect)["published_offset"]
    done = cluster.run("zk", "diff", "--at", newest, "-z", connect, "-o", "json", check=False)
    assert json.loads(done.stdout)["differences"] == []
    done = cluster.run("zk", "diff", "--at", before, "-z", connect, "-o", "json", check=False)
    assert done.returncode == 1
    extra = {d["path"] for d in json.loads(done.stdout)["differences"] if d["kind"] == "extra"}
    assert "/brokers/topics/later" in extra
    beyond = cluster.run("zk", "diff", "--at", 1 << 40, "-z", connect, check=False)
    assert "there is no image at offset" in beyond.stderr
