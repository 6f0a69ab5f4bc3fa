"""A leader that sends garbage: the follower refuses it, logs that once, fetches less and less often, and its broker
continues.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

import pytest
import trio

from tests.broker.batches import batch
from tests.broker.partitions.replicas import DEADLINE_SECONDS, until
from tests.cluster.data_side import open_harness, partition, registration, serving, topic, topic_id
from trimaran.broker.replication.fetch_client import FetchClient
from trimaran.log.batches.batch import BatchView
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import (
    EpochEndOffset,
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

pytestmark = pytest.mark.slow

INT64_MAX = (1 << 63) - 1
EMPTY = ListOffsetsResponse(topics=[])


class HostileLeader:
    """Sends the given answers."""

    def __init__(self) -> None:
        self.data = partition_data()
        self.topic = "t"
        self.offsets = EMPTY
        self.fetches = 0

    def fetch(self) -> FetchResponse:
        self.fetches += 1
        topics = [FetchableTopicResponse(topic_id=topic_id(self.topic), partitions=[self.data])]
        return FetchResponse(session_id=7, responses=topics)


@handles(FetchRequest, versions="4-18", access=open_to_all("a test"))
def fetch(_request, leader: HostileLeader, _call) -> FetchResponse:
    return leader.fetch()


@handles(ListOffsetsRequest, versions="1-10", access=open_to_all("a test"))
def list_offsets(_request, leader: HostileLeader, _call) -> ListOffsetsResponse:
    return leader.offsets


@asynccontextmanager
async def followed(tmp_path):
    """Returns broker 12, which follows the hostile broker 11 and has one record of an older epoch."""
    leader, listener = HostileLeader(), Listener.bind("PLAINTEXT", "127.0.0.1", 0)
    harness = open_harness(tmp_path, 12, replicates=True)
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery, serving(harness) as port:
            await nursery.start(serve_listener, [listener], Registry([fetch, list_offsets]), leader)
            brokers = (registration(11, listener.address[1]), registration(12, port))
            harness.set_image(topic("t", partition((12, 11))), brokers=brokers)
            harness.leader().append(*record(b"mine"))
            harness.flush()
            yield harness, leader
            nursery.cancel_scope.cancel()


def record(value: bytes, offset: int = 0, epoch: int = 0):
    data = batch(value)
    view = BatchView(data)
    view.stamp(offset, epoch)
    return data, [view]


def bytes_of(value: bytes, offset: int, epoch: int = 0) -> bytes:
    return bytes(record(value, offset, epoch)[0])


def flipped(offset: int = 1) -> bytes:
    data = bytearray(bytes_of(b"flipped", offset, epoch=1))
    data[-1] ^= 1
    return bytes(data)


def listed(name: str, index: int = 0, **fields) -> ListOffsetsResponse:
    answer = ListOffsetsPartitionResponse(partition_index=index, **fields)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=name, partitions=[answer])])


def partition_data(**fields) -> PartitionData:
    return PartitionData(partition_index=0, **{"high_watermark": 1, "records": b"", **fields})


OUT_OF_RANGE = partition_data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)

NONSENSE = {
    "offsets of no topic": (OUT_OF_RANGE, EMPTY),
    "offsets of a topic without partitions": (
        OUT_OF_RANGE,
        ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[])]),
    ),
    "offsets of another topic": (OUT_OF_RANGE, listed("u", offset=0)),
    "offsets of another partition": (OUT_OF_RANGE, listed("t", 3, offset=0)),
    "no offset": (OUT_OF_RANGE, listed("t", offset=-1)),
    "an error that has no name": (OUT_OF_RANGE, listed("t", error_code=4242)),
    "out of range, where we are in range": (OUT_OF_RANGE, listed("t", offset=1)),
    "a failure": (partition_data(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), EMPTY),
    "an error of a fetch that has no name": (partition_data(error_code=-77), EMPTY),
    "a divergence where we have nothing": (
        partition_data(diverging_epoch=EpochEndOffset(epoch=0, end_offset=INT64_MAX)),
        EMPTY,
    ),
    "garbage": (partition_data(records=b"\xff" * 200), EMPTY),
    "zeros": (partition_data(records=bytes(100)), EMPTY),
    "a flipped bit": (partition_data(records=flipped()), EMPTY),
    "records that we have": (partition_data(records=bytes_of(b"old", 0)), EMPTY),
    "half of a batch": (partition_data(records=bytes_of(b"half", 1)[:-3]), EMPTY),
    "an epoch that nobody leads": (partition_data(records=bytes_of(b"later", 1, epoch=2)), EMPTY),
    "an older epoch behind a newer one": (
        partition_data(records=bytes_of(b"new", 1, epoch=1) + bytes_of(b"older", 2, epoch=0)),
        EMPTY,
    ),
    "an offset behind the same one": (partition_data(records=2 * bytes_of(b"again", 1)), EMPTY),
    "an offset that no log has": (partition_data(records=bytes_of(b"far", INT64_MAX)), EMPTY),
}


BEHIND_SOUND_ONES = {
    "a flipped bit": flipped(2),
    "another magic": b"\xff" * 200,
    "a later epoch": bytes_of(b"later", 2, epoch=2),
}


@pytest.mark.parametrize("what", BEHIND_SOUND_ONES)
async def test_sound_batches_before_invalid_data_are_taken(tmp_path, what):
    async with followed(tmp_path) as (harness, leader):
        sound = bytes_of(b"sound", 1, epoch=1)
        leader.data = partition_data(records=sound + BEHIND_SOUND_ONES[what], high_watermark=3)
        harness.set_image(topic("t", partition((12, 11), 11, leader_epoch=1, partition_epoch=1)))
        held = harness.partitions.find(TopicPartition("t", 0))
        await until(lambda: held.log.flushed_offset == 2)
        leader.data = partition_data(records=BEHIND_SOUND_ONES[what], high_watermark=3)
        before = leader.fetches
        await until(lambda: leader.fetches >= before + 3)
        assert (held.log.log_end_offset, held.log.epochs.latest_epoch) == (2, 1)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("case", NONSENSE)
async def test_invalid_data_is_logged_once_and_backs_off(tmp_path, monkeypatch, caplog, case):
    delays = []
    real = FetchClient.delay

    def delay(self, followed, now):
        delays.append(self.backoff_of(followed))
        real(self, followed, now)

    monkeypatch.setattr(FetchClient, "delay", delay)
    async with followed(tmp_path) as (harness, leader):
        leader.data, leader.offsets = NONSENSE[case]
        following = partition((12, 11), 11, leader_epoch=1, partition_epoch=1)
        harness.set_image(topic("t", following))
        await until(lambda: len(delays) == 3)
        assert delays == [0.02, 0.04, 0.08]
        assert leader.fetches <= 8
        [told] = warnings(caplog)
        assert told.startswith("t-0 is not replicated from broker 11, epoch 1, at offset 1: ")
        log = harness.partitions.find(TopicPartition("t", 0)).log
        assert (log.log_start_offset, log.log_end_offset) == (0, 1)
        # from now on it behaves correctly
        leader.data = partition_data(records=bytes_of(b"sound", 1), high_watermark=2)
        await until(lambda: log.log_end_offset == 2)


async def test_unrequested_partitions_are_ignored(tmp_path):
    async with followed(tmp_path) as (harness, leader):
        leader.topic = "somebody else's"
        leader.data = partition_data(records=bytes_of(b"x", 1))
        harness.set_image(topic("t", partition((12, 11), 11, leader_epoch=1, partition_epoch=1)))
        await until(lambda: leader.fetches >= 3)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 1
        leader.topic = "t"
        await until(lambda: harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 2)


async def test_failing_partition_does_not_delay_others(tmp_path):
    async with followed(tmp_path) as (harness, leader):
        real = leader.fetch

        def both() -> FetchResponse:
            response = real()
            sound = partition_data(records=bytes_of(b"sound", 0), high_watermark=1)
            response.responses.append(
                FetchableTopicResponse(topic_id=topic_id("u"), partitions=[sound])
            )
            return response

        leader.fetch = both
        leader.data = partition_data(records=flipped())
        state = partition((12, 11), 11, leader_epoch=1, partition_epoch=1)
        harness.set_image(topic("t", state), topic("u", state))
        other = harness.partitions.find(TopicPartition("u", 0))
        await until(lambda: other.open_log is not None and other.log.flushed_offset == 1)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 1
