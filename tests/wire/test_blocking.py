"""The blocking client in a thread, against servers of the same process."""

import subprocess
import sys

import pytest
import trio

from tests.wire.transport.cluster import open_cluster
from trimaran.wire.blocking import BlockingClient, BlockingConnection
from trimaran.wire.client.destinations import CoordinatorNode, LeaderNode
from trimaran.wire.client.errors import (
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.list_offsets import ListOffsetsRequest
from trimaran.wire.messages.metadata import MetadataRequest

LIST = ListOffsetsRequest(replica_id=-1, topics=[])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ANY = MetadataRequest(topics=[])

in_thread = trio.to_thread.run_sync


async def test_calls_are_sent_to_responsible_nodes():
    async with open_cluster() as cluster:

        def use():
            with BlockingClient(list(cluster.addresses.values()), client_id="me") as client:
                for to in (None, 2, LeaderNode(TopicPartition("t", 0)), CoordinatorNode("g")):
                    assert client.call(to, ANY).cluster_id == "toy"
                client.call(LeaderNode(TopicPartition("t", 0)), LIST)
                cluster.move(2)
                assert (
                    client.call(LeaderNode(TopicPartition("t", 0)), LIST)
                    .topics[0]
                    .partitions[0]
                    .error_code
                    == 0
                )
                assert client.call(CoordinatorNode("g"), HEARTBEAT).error_code == 0
                with pytest.raises(VersionMismatch):
                    client.call(None, DescribeGroupsRequest(groups=[]))
                assert client.refresh(["t"]).topics[0].name == "t"

        await in_thread(use)


async def test_closed_connection_is_opened_again():
    async with open_cluster([1]) as cluster:
        client = BlockingClient([cluster.addresses[1]])
        await in_thread(client.call, None, ANY)
        for served in cluster.servers[1].connections.values():
            served.abort()
        assert (await in_thread(client.call, None, ANY)).cluster_id == "toy"
        client.close()


async def test_refused_connection_is_reported():
    async with open_cluster([1]) as cluster:
        await cluster.servers[1].drain(0)
        address = cluster.addresses[1]

        def use():
            with pytest.raises(ConnectRefused):
                BlockingConnection(address)
            client = BlockingClient([address], timeout=0.1)
            with pytest.raises(RequestTimedOut) as caught:
                client.call(None, ANY)
            assert isinstance(caught.value.__cause__, ConnectRefused)

        await in_thread(use)


async def test_server_of_other_protocol_is_reported():
    async def speak_ssh(stream):
        await stream.send_all(b"SSH-2.0-OpenSSH_9.6\r\n")

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, speak_ssh, [listener])
        with pytest.raises(ConnectionLost, match="SSH"):
            await in_thread(BlockingConnection, listener.socket.getsockname())
        nursery.cancel_scope.cancel()


async def test_silent_server_times_out():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listener.socket.getsockname()
    async with listener:
        with pytest.raises(RequestTimedOut):
            await in_thread(lambda: BlockingConnection(address, timeout=0.05))


def test_blocking_client_imports_no_trio():
    code = "import sys, trimaran.wire.blocking; assert not {'trio', 'asyncio', 'random'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
