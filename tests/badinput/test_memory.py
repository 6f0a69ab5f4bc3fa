"""B1: a thousand hostile connections take no more memory than budgeted, and other clients are served meanwhile.

The nodes are processes of their own; their peak memory is the kernel's VmHWM.
"""

import contextlib
import resource
import time

import pytest
import trio

from tests.badinput.nodes import PEERS, TOPIC, running_cluster
from tests.badinput.peer import Peer, frame_of, sized
from tests.log.helpers import batch_bytes
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(PEERS is not None, reason="measures our own processes"),
]

CONNECTIONS = 1000
MIB = 1 << 20
REQUEST_BYTES_MAX = 64 * MIB
# The budgets of requests and responses, one message above each of their pools, the unbudgeted memory of each connection
# (a receive buffer of 64 KiB, tasks, a socket), and the tenth that the allocator loses.
ALLOWED_KIB = int(1.1 * (64 + 128 + 3 * 16 + CONNECTIONS * 0.09) * 1024)
FLOOD_SECONDS = 4.0


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, CONNECTIONS + 1000)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    option = f"queued.max.request.bytes={REQUEST_BYTES_MAX}"
    with running_cluster(tmp_path_factory.mktemp("memory"), "--override", option) as cluster:
        cluster.create(TOPIC, 2)
        yield cluster


async def flood(address, data, *, reads=False):
    """Sends `data` on every connection as fast as the node reads it, until the time is up or the connection is
    closed.
    """

    async def one():
        with contextlib.suppress(OSError, trio.BrokenResourceError):
            sock = trio.socket.socket()
            if not reads:
                sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
            with sock:
                await sock.connect(address)
                view = memoryview(data)
                while view:
                    view = view[await sock.send(view[:65536]) :]
                await trio.sleep_forever()

    with trio.move_on_after(FLOOD_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS):
                nursery.start_soon(one)


async def peak_growth_kib(node, *floods):
    """Returns the growth of the node's peak memory, while another client is served."""
    before = node.rss_kib()
    node.forget_peak()
    slowest = 0.0

    async def others():
        nonlocal slowest
        while True:
            began = time.monotonic()
            await trio.to_thread.run_sync(node.assert_serves)
            slowest = max(slowest, time.monotonic() - began)
            await trio.sleep(0.2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        for data in floods:
            await flood(node.address, data)
        nursery.cancel_scope.cancel()
    grown = node.peak_kib() - before
    print(f"{before >> 10} MiB grew by {grown >> 10} MiB, others waited {slowest:.2f} s")
    return grown


def long_poll():
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    return FetchRequest(
        max_wait_ms=60_000, min_bytes=MIB, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )


def large_metadata(size):
    name = "n" * 200
    topics = [MetadataRequestTopic(name=f"{name}{i}") for i in range(size // 210)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


async def test_b1_requests_behind_waiting_one_take_bounded_memory(own):
    data = frame_of(long_poll(), 12) + frame_of(large_metadata(3_600_000), 9) * 4
    assert await peak_growth_kib(own.broker, data) < ALLOWED_KIB
    own.broker.assert_serves()


@pytest.mark.parametrize("role", ["broker", "controller"])
async def test_b1_incomplete_frames_take_bounded_memory(own, role):
    """Also mF4: the frame announces a hundred megabytes, and stops after some of them."""
    node = getattr(own, role)
    frame = sized(frame_of(ApiVersionsRequest(), 0)[4:] + bytes(100 * MIB - 100))
    assert await peak_growth_kib(node, memoryview(frame)[: 8 * MIB]) < ALLOWED_KIB
    node.assert_serves()


async def test_b1_unread_answers_take_bounded_memory(own):
    """Also mF7, about large responses. The messages of Fetch v3 are converted in memory."""
    records = bytes(900_000)
    for _ in range(20):
        produce(own.broker, records)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=16 * MIB)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=16 * MIB,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    assert await peak_growth_kib(own.broker, frame_of(request, 3) * 5) < ALLOWED_KIB
    own.broker.assert_serves()


def produce(node, value):
    data = PartitionProduceData(index=0, records=batch_bytes(value=value))
    request = ProduceRequest(
        acks=1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    peer = Peer(node.address)
    with contextlib.closing(peer):
        (topic,) = peer.ask(request, 9).responses
        assert topic.partition_responses[0].error_code == 0


async def test_b1_large_responses_take_bounded_memory(own):
    """A request of 40 bytes has a response of eight megabytes, produced while the client does not read; a request with
    a much larger response is refused.
    """
    commit_many(own)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="large", topics=None)])
    names = [f"{number}" for number in range(3_000)]
    configs = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=32, resource_name=name, configuration_keys=None)
            for name in names
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    data = frame_of(fetch, 9) * 5 + frame_of(configs, 4)
    assert await peak_growth_kib(own.broker, data) < ALLOWED_KIB
    own.broker.assert_serves()


def commit_many(own):
    """Commits offsets of 2,000 partitions, with metadata of maximum length."""
    own.create("many", 2_000)
    with contextlib.closing(Peer(own.broker.address)) as peer:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["large"])
        while peer.ask(find, 4).coordinators[0].error_code:
            pass
        for start in range(0, 2_000, 100):
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=1, committed_metadata="m" * 4096
                )
                for index in range(start, start + 100)
            ]
            topic = OffsetCommitRequestTopic(name="many", partitions=partitions)
            request = OffsetCommitRequest(group_id="large", topics=[topic])
            while peer.ask(request, 8).topics[0].partitions[0].error_code:
                pass
