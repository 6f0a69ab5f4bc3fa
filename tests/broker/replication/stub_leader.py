"""A scripted leader over a real socket, and broker 12 that follows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager

import trio

from tests.broker.batches import batch
from tests.cluster.data_side import open_harness, partition, registration, serving, topic, topic_id
from trimaran.log.batches.batch import BatchView
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.server.server import Listener, serve_listener

DEADLINE_SECONDS = 60
SESSION = 7
NEWEST, OLDEST = -1, -4  # the timestamps of ListOffsets


def data(index: int = 0, **fields) -> PartitionData:
    return PartitionData(partition_index=index, **{"high_watermark": 0, "records": b"", **fields})


def answered(*partitions: PartitionData, name: str = "t", **fields) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=topic_id(name), partitions=list(partitions))]
    values = {"session_id": SESSION, "responses": topics if partitions else [], **fields}
    return FetchResponse(**values)


def record(offset: int, value: bytes = b"x", epoch: int = 1) -> bytes:
    one = batch(value)
    BatchView(one).stamp(offset, epoch)
    return bytes(one)


class StubLeader:
    """A leader that calls `answer` for each Fetch; `offsets` are its ListOffsets responses: an offset or an error code
    by timestamp.
    """

    def __init__(self) -> None:
        self.answer: Callable[[FetchRequest], FetchResponse] = lambda _: answered()
        self.offsets: dict[int, tuple[int, int]] = {}
        self.fetches: list[FetchRequest] = []
        self.listed: list[tuple[int, int]] = []
        self.on_listed: Callable[[], object] = lambda: None

    def positions(self) -> list[list[tuple[int, int]]]:
        """Returns the partition and offset in each request."""
        return [
            [
                (partition.partition, partition.fetch_offset)
                for asked in request.topics
                for partition in asked.partitions
            ]
            for request in self.fetches
        ]

    def sessions(self) -> list[tuple[int, int]]:
        return [(request.session_id, request.session_epoch) for request in self.fetches]


@handles(FetchRequest, versions="4-18", access=open_to_all("a stub"))
def fetch(request, leader: StubLeader, _call) -> FetchResponse:
    leader.fetches.append(request)
    return leader.answer(request)


@handles(ListOffsetsRequest, versions="1-10", access=open_to_all("a stub"))
def list_offsets(request, leader: StubLeader, _call) -> ListOffsetsResponse:
    [asked] = request.topics[0].partitions
    leader.listed.append((request.replica_id, asked.current_leader_epoch))
    leader.on_listed()
    offset, code = leader.offsets[asked.timestamp]
    answer = ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, offset=offset, error_code=code
    )
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=[answer])]
    )


@asynccontextmanager
async def followed(tmp_path, *, records: int = 1, partitions: int = 1):
    """Returns broker 12 with `records` of epoch 0 in each of its partitions; it does not follow yet: see `follow`."""
    leader, listener = StubLeader(), Listener.bind("PLAINTEXT", "127.0.0.1", 0)
    harness = open_harness(tmp_path, 12, replicates=True)
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery, serving(harness) as port:
            await nursery.start(serve_listener, [listener], Registry([fetch, list_offsets]), leader)
            brokers = (registration(11, listener.address[1]), registration(12, port))
            harness.set_image(topic("t", *[partition((12, 11))] * partitions), brokers=brokers)
            for index in range(partitions):
                for _ in range(records):
                    one = batch(b"mine")
                    harness.leader(index=index).append(one, [BatchView(one)])
            harness.flush()
            yield harness, leader
            nursery.cancel_scope.cancel()


def follow(harness, epoch: int = 1, partitions: int = 1) -> None:
    state = partition((12, 11), 11, leader_epoch=epoch, partition_epoch=epoch)
    harness.set_image(topic("t", *[state] * partitions))
