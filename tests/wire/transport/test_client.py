import random

import pytest
import trio

from tests.wire.transport.cluster import open_cluster
from tests.wire.transport.cluster_client import open_client
from trimaran.wire.client.destinations import (
    ControllerNode,
    CoordinatorNode,
    LeaderNode,
    NodeWithId,
)
from trimaran.wire.client.errors import RequestTimedOut, VersionMismatch
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.list_offsets import ListOffsetsRequest
from trimaran.wire.messages.metadata import MetadataRequest

LIST = ListOffsetsRequest(replica_id=-1, topics=[])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def open_to(cluster, node_ids=(1, 2)):
    return open_client([cluster.addresses[i] for i in node_ids], rng=random.Random(1))


async def test_calls_are_sent_to_responsible_nodes():
    async with open_cluster() as cluster, open_to(cluster) as client:
        for to in (
            None,
            LeaderNode(TopicPartition("t", 0)),
            CoordinatorNode("g"),
            ControllerNode(),
            NodeWithId(2),
        ):
            assert (await client.call(MetadataRequest(topics=[]), to)).cluster_id == "toy"
        assert cluster.asked[-1] == (2, "Metadata")
        await client.call(LIST, LeaderNode(TopicPartition("t", 0)))
        await client.call(HEARTBEAT, CoordinatorNode("g"))
        assert cluster.asked[-2:] == [(1, "ListOffsets"), (1, "Heartbeat")]
        assert all(len(server.connections) <= 1 for server in cluster.servers.values())


async def test_moved_leader_is_followed(autojump_clock):
    async with open_cluster() as cluster, open_to(cluster) as client:
        await client.call(LIST, LeaderNode(TopicPartition("t", 0)))
        cluster.move(2)
        answer = await client.call(LIST, LeaderNode(TopicPartition("t", 0)))
        assert answer.topics[0].partitions[0].error_code == 0
        assert cluster.asked[-1] == (2, "ListOffsets")


async def test_client_survives_dead_node(autojump_clock):
    async with open_cluster() as cluster, open_to(cluster) as client:
        await client.refresh(["t"])
        await client.call(LIST, LeaderNode(TopicPartition("t", 0)))
        await cluster.servers[1].drain(0)
        cluster.move(2)
        answer = await client.call(LIST, LeaderNode(TopicPartition("t", 0)), timeout=10)
        assert answer.topics[0].partitions[0].error_code == 0


async def test_client_finds_nodes_beyond_bootstrap(autojump_clock):
    async with open_cluster() as cluster, open_to(cluster, [1]) as client:
        await client.refresh()
        await cluster.servers[1].drain(0)
        assert (await client.call(MetadataRequest(topics=[]))).cluster_id == "toy"
        assert cluster.asked[-1] == (2, "Metadata")


async def test_deadline_ends_call_with_last_failure(autojump_clock):
    async with open_cluster() as cluster, open_to(cluster) as client:
        cluster.leader = -1
        with pytest.raises(RequestTimedOut) as caught:
            await client.call(LIST, LeaderNode(TopicPartition("t", 0)), timeout=7)
        assert trio.current_time() == pytest.approx(7, abs=0.01)
        assert isinstance(caught.value.__cause__, KafkaError)


async def test_unserved_request_fails_at_once():
    async with open_cluster() as cluster, open_to(cluster) as client:
        with pytest.raises(VersionMismatch):
            await client.call(DescribeGroupsRequest(groups=[]))


async def test_stopped_node_is_replaced_by_another(autojump_clock):
    """A stopped process still accepts connections; only its silence shows that it is stopped."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, open_cluster() as cluster:
        addresses = [listener.socket.getsockname(), cluster.addresses[1]]
        for seed in range(4):
            async with open_client(addresses, rng=random.Random(seed)) as client:
                assert (await client.call(MetadataRequest(topics=[]))).cluster_id == "toy"


async def test_concurrent_calls_share_one_connection():
    async with open_cluster([1]) as cluster, open_to(cluster, [1]) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(client.call, MetadataRequest(topics=[]))
        assert cluster.servers[1].counters.accepted == 1
        assert len(cluster.asked) == 50


async def test_malformed_bootstrap_list_is_refused():
    with pytest.raises(ValueError, match="host:port"):
        async with open_client("nowhere"):
            pytest.fail("opened")
