"""Processes that are stopped (SIGTERM), and processes that are frozen and resumed (SIGSTOP, SIGCONT)."""

import json
import os
import signal

import pytest

from tests.cluster.processes import LocalCluster, until
from tests.processes.load import Load, lost

TOPIC, PARTITIONS = "t", 6
SESSION_MS = 2000
OPTIONS = (
    "--override",
    f"broker.session.timeout.ms={SESSION_MS}",
    "--override",
    "broker.heartbeat.interval.ms=500",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("stop"), *OPTIONS) as cluster:
        cluster.run("topics", "create", TOPIC, "-p", PARTITIONS, "-r", 3)
        cluster.wait_for_topic(TOPIC)
        yield cluster


def all_in_sync(cluster):
    return all(len(p["isr"]) == 3 for p in cluster.partitions(TOPIC).values())


def leads_nothing(cluster, broker):
    return all(p["leader"] != broker for p in cluster.partitions(TOPIC).values())


def quorum(cluster, *options, but=None):
    """Returns the output of `quorum status`, once a controller other than `but` leads."""

    def found():
        done = cluster.run("quorum", "status", "-o", "json", *options, check=False)
        status = json.loads(done.stdout) if done.returncode == 0 else {"leader_id": -1}
        return status if status["leader_id"] not in {but, -1} else None

    return until(found, "a leader of the quorum")


def epoch_and_leader(cluster):
    status = quorum(cluster)
    return status["leader_epoch"], status["leader_id"]


def test_stopping_broker_hands_leaderships_over_first(cluster):
    until(lambda: all_in_sync(cluster), "every replica in sync")
    broker = cluster.partitions(TOPIC)[0]["leader"]
    pid = cluster.node(broker).pid
    with Load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        os.kill(pid, signal.SIGTERM)
        until(lambda: cluster.node(broker).pid is None, "the broker has ended")
        assert leads_nothing(cluster, broker)
        load.wait_for_acks()
        cluster.restart(broker)
        until(lambda: all_in_sync(cluster), "every replica in sync again")
    assert load.failed == []
    assert lost(cluster.bootstrap, TOPIC, PARTITIONS, load.acked) == {}


def test_stopping_controller_hands_over(cluster):
    epoch, leader = epoch_and_leader(cluster)
    os.kill(cluster.node(leader).pid, signal.SIGTERM)
    until(lambda: cluster.node(leader).pid is None, "the controller has ended")
    assert quorum(cluster, but=leader)["leader_epoch"] > epoch
    cluster.restart(leader)


def test_frozen_broker_is_fenced_and_rejoins(cluster):
    until(lambda: all_in_sync(cluster), "every replica in sync")
    broker = cluster.partitions(TOPIC)[0]["leader"]
    with Load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        cluster.run("chaos", "pause", broker)
        assert cluster.node(broker).state == "paused"
        until(lambda: leads_nothing(cluster, broker), "its partitions have other leaders")
        load.wait_for_acks()
        cluster.run("chaos", "resume", broker)
        until(lambda: cluster.roles()[broker] == "active", "it is unfenced")
        until(lambda: all_in_sync(cluster), "every replica in sync again")
    assert load.failed == []
    assert lost(cluster.bootstrap, TOPIC, PARTITIONS, load.acked) == {}


def test_frozen_active_controller_is_replaced_and_steps_down(cluster):
    epoch, leader = epoch_and_leader(cluster)
    cluster.run("chaos", "pause", leader)
    others = ",".join(
        n.address for n in cluster.state.nodes if n.role == "controller" and n.id != leader
    )
    assert quorum(cluster, "-B", others, but=leader)["leader_epoch"] > epoch
    cluster.run("topics", "create", "meanwhile", "-p", 1, "-r", 3)
    cluster.run("chaos", "resume", leader)

    def follows():
        replicas = {r["id"]: r for r in quorum(cluster)["replicas"]}
        return replicas[leader]["role"] == "follower" and replicas[leader]["lag"] == 0

    until(follows, "the old one follows and has caught up")
    address = cluster.node(leader).address
    assert quorum(cluster, "-B", address, but=leader)["leader_epoch"] > epoch
