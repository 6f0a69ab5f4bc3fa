"""Toy nodes that answer Metadata, FindCoordinator and ListOffsets, for the tests of both client shells."""

from contextlib import AsyncExitStack, asynccontextmanager

from tests.wire.transport.support import open_server
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles


class ToyCluster:
    """A cluster in which `leader` leads partition 0 of every topic, and coordinates every group."""

    def __init__(self) -> None:
        self.addresses = {}
        self.servers = {}
        self.leader = 1
        self.leader_epoch = 1
        self.asked = []
        self.software = set()

    def move(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch += 1


class ToyNode:
    def __init__(self, cluster: ToyCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id


@handles(MetadataRequest, versions="0-13", access=open_to_all("a test"))
def metadata(request, node, call):
    cluster = node.cluster
    cluster.asked.append((node.node_id, "Metadata"))
    cluster.software.add(call.connection.client_software)
    topics = []
    for asked in request.topics or ():
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=cluster.leader,
            leader_epoch=cluster.leader_epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        topics.append(MetadataResponseTopic(name=asked.name, partitions=[partition]))
    brokers = [
        MetadataResponseBroker(node_id=i, host=host, port=port)
        for i, (host, port) in cluster.addresses.items()
    ]
    return MetadataResponse(brokers=brokers, controller_id=1, cluster_id="toy", topics=topics)


@handles(FindCoordinatorRequest, versions="0-6", access=open_to_all("a test"))
def find_coordinator(request, node, call):
    host, port = node.cluster.addresses[node.cluster.leader]
    return FindCoordinatorResponse(node_id=node.cluster.leader, host=host, port=port)


@handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
def heartbeat(request, node, call):
    node.cluster.asked.append((node.node_id, "Heartbeat"))
    wrong = node.node_id != node.cluster.leader
    return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR if wrong else 0)


@handles(ListOffsetsRequest, versions="1-11", access=open_to_all("a test"))
def list_offsets(request, node, call):
    node.cluster.asked.append((node.node_id, "ListOffsets"))
    wrong = node.node_id != node.cluster.leader
    partition = ListOffsetsPartitionResponse(
        partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if wrong else 0
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


HANDLERS = (metadata, find_coordinator, heartbeat, list_offsets)


@asynccontextmanager
async def open_cluster(node_ids=(1, 2), more=()):
    """Serves the nodes until the block ends; `more` handlers are added to `HANDLERS`."""
    cluster = ToyCluster()
    async with AsyncExitStack() as stack:
        for node_id in node_ids:
            opened = open_server(Registry((*HANDLERS, *more)), context=ToyNode(cluster, node_id))
            server = await stack.enter_async_context(opened)
            cluster.servers[node_id] = server
            cluster.addresses[node_id] = server.addresses["PLAINTEXT"]
        yield cluster
