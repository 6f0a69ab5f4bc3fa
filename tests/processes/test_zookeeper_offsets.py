"""Offset requests of old consumers to the brokers of a local cluster with ZooKeeper."""

import pytest

from tests.cluster.processes import LocalCluster, until
from tests.zkcompat.conftest import needs_zookeeper
from trimaran.errors.user_error import Exit
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    needs_zookeeper()
    data = tmp_path_factory.mktemp("offsets") / "cluster"
    with LocalCluster(data, "--zk", "--controllers", "1", "--brokers", "2") as cluster:
        cluster.run("topics", "create", "orders", "-p", "2", "-r", "2")
        cluster.wait_for_topic("orders")
        yield cluster


def connection_to(node):
    return BlockingConnection(parse_bootstrap(node.address)[0])


def commit(node, group, offsets):
    partitions = [
        OffsetCommitRequestPartition(partition_index=p, committed_offset=o, committed_metadata="")
        for p, o in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name="orders", partitions=partitions)
    connection = connection_to(node)
    answer = connection.call(OffsetCommitRequest(group_id=group, topics=[topic]), version=0)
    connection.close()
    return {p.partition_index: p.error_code for t in answer.topics for p in t.partitions}


def fetch(node, group):
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])
    connection = connection_to(node)
    answer = connection.call(OffsetFetchRequest(group_id=group, topics=[topic]), version=0)
    connection.close()
    return {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}


def test_old_consumer_group_moves_to_kafka(cluster):
    one, other = cluster.node(11), cluster.node(12)
    # A broker serves other requests before its ZooKeeper session is established; until then the error is retriable.
    until(lambda: commit(one, "readers", {0: 40, 1: 41}) == {0: 0, 1: 0}, "connected")
    until(lambda: fetch(other, "readers") == {0: 40, 1: 41}, "the other one, too")
    shown = cluster.run("zk", "get", "/consumers/readers/offsets/orders/1").stdout
    assert "41" in shown

    dry = cluster.json("groups", "migrate-offsets", "readers")
    assert [(r["partition"], r["zookeeper"], r["kafka"], r["action"]) for r in dry] == [
        (0, 40, None, "commit"),
        (1, 41, None, "commit"),
    ]
    assert cluster.run("groups", "describe", "readers", check=False).returncode == Exit.REFUSED
    cluster.run("groups", "migrate-offsets", "readers", "--execute")
    offsets = cluster.json("groups", "describe", "readers")["offsets"]
    assert {row["partition"]: row["committed"] for row in offsets} == {0: 40, 1: 41}

    commit(one, "readers", {0: 39, 1: 42})
    again = cluster.json("groups", "migrate-offsets", "readers", "--execute")
    assert [row["action"] for row in again] == ["kept, Kafka's is higher", "commit"]
    offsets = cluster.json("groups", "describe", "readers")["offsets"]
    assert {row["partition"]: row["committed"] for row in offsets} == {0: 40, 1: 42}


def test_group_without_offsets_is_reported(cluster):
    done = cluster.run("groups", "migrate-offsets", "nobody", check=False)
    assert done.returncode == Exit.NO
    assert "/consumers/nobody/offsets" in done.stderr


def test_only_zookeeper_requests_wait_for_it(cluster):
    one = cluster.node(11)
    until(lambda: commit(one, "waiting", {0: 1}) == {0: 0}, "connected")
    cluster.kill("zookeeper")
    away = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    until(lambda: commit(one, "waiting", {0: 2}) == {0: away}, "the broker has noticed")
    cluster.run("produce", "orders", stdin="a line\n")
    assert cluster.run("consume", "orders", "-e").stdout.splitlines() == ["a line"]
    cluster.run("topics", "create", "meanwhile")
    cluster.restart("zookeeper")
    until(lambda: commit(one, "waiting", {0: 2}) == {0: 0}, "it is back")
    assert fetch(one, "waiting")[0] == 2
