"""SIGKILL of real processes under load: producing continues, and no acknowledged record is lost."""

import pytest

from tests.cluster.processes import LocalCluster, until
from tests.processes.load import Load, lost

TOPIC, PARTITIONS = "t", 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("kill")) as cluster:
        cluster.run("topics", "create", TOPIC, "-p", PARTITIONS, "-r", 3)
        cluster.wait_for_topic(TOPIC)
        yield cluster


def all_in_sync(cluster):
    return all(len(p["isr"]) == 3 for p in cluster.partitions(TOPIC).values())


def others_lead(cluster, nodes):
    leaders = {p["leader"] for p in cluster.partitions(TOPIC).values()}
    leaders.add(cluster.active_controller())
    return -1 not in leaders and leaders.isdisjoint(map(int, nodes))


def victims(cluster, what):
    leader = str(cluster.partitions(TOPIC)[0]["leader"])
    controller = str(cluster.active_controller())
    return {
        "partition leader": [leader],
        "active controller": [controller],
        "both": [controller, leader],
    }[what]


@pytest.mark.parametrize("what", ["partition leader", "active controller", "both"])
def test_producing_continues_without_loss_after_kills(cluster, what):
    until(lambda: all_in_sync(cluster), "every replica in sync")
    nodes = victims(cluster, what)
    with Load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        for node in nodes:
            cluster.kill(node)
        until(lambda: others_lead(cluster, nodes), "others lead")
        load.wait_for_acks()
        for node in nodes:
            cluster.restart(node)
        until(lambda: all_in_sync(cluster), "every replica in sync again")
        load.wait_for_acks()
    assert load.failed == []
    assert lost(cluster.bootstrap, TOPIC, PARTITIONS, load.acked) == {}


def test_killed_and_restarted_cluster_keeps_acknowledged_records(cluster):
    until(lambda: all_in_sync(cluster), "every replica in sync")
    names = [node.name for node in cluster.state.nodes]
    with Load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        for name in names:
            cluster.kill(name)
        for name in names:
            cluster.restart(name)
        load.wait_for_acks()
    assert load.failed == []
    assert lost(cluster.bootstrap, TOPIC, PARTITIONS, load.acked) == {}
