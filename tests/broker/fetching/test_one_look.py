"""One examination of a partition by a Fetch: the reads of its log, and the kept result."""

from __future__ import annotations

import pytest

from tests.broker.batches import append
from tests.broker.calls import started
from tests.broker.fetching.fetch_requests import BROKERS, fetch_of, fill, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.fetching.fetch import FetchReader
from trimaran.broker.fetching.slots import Slot
from trimaran.log.old_formats.down_conversion import OVERFLOW
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import (
    EpochEndOffset,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition((11, 12), isr=(11,))] * 2), brokers=BROKERS)
    return harness


@pytest.fixture
def reads(monkeypatch):
    """Notes the offset and bytes of each read of a log."""
    asked, read = [], PartitionLog.read

    def noted(self, offset, max_bytes, **terms):
        asked.append((offset, max_bytes))
        return read(self, offset, max_bytes, **terms)

    monkeypatch.setattr(PartitionLog, "read", noted)
    return asked


# -- reads of the log


@pytest.mark.parametrize("left", [-1, 0, 1, 2])
async def test_log_is_read_only_within_remaining_room(harness, reads, left):
    size = fill(harness, 0, 1)
    fetch, _, _ = fetch_of(harness, wanted(0), wanted(1), max_bytes=size + left)
    started(fetch.poll())
    assert reads == [(0, size + left), (0, left)][: 2 if left > 0 else 1]


@pytest.mark.parametrize(("wished", "asked"), [(-5, 0), (0, 0), (7, 7), (2000, 1000)])
async def test_read_size_is_bounded_by_partition_and_zero(harness, reads, wished, asked):
    fill(harness, 0)
    started(fetch_of(harness, wanted(max_bytes=wished), max_bytes=1000)[0].poll())
    assert reads == [(0, asked)]


async def test_log_end_is_not_read(harness, reads):
    fill(harness, 0)
    append(harness, b"not flushed yet", index=0)
    started(fetch_of(harness, wanted(0, 1))[0].poll())
    assert reads == []


async def test_empty_parts_of_results_are_shared(harness):
    """A response of a thousand partitions makes no objects for them."""
    fill(harness, 0)
    fetch, _, slots = fetch_of(harness, wanted(0), wanted(1), wanted(2), in_session=True)
    started(fetch.poll())
    [answered] = started(fetch.responses(slots))
    assert [data.partition_index for data in answered.partitions] == [0, 1, 2]
    for name, empty in (
        ("diverging_epoch", EpochEndOffset()),
        ("current_leader", LeaderIdAndEpoch()),
        ("snapshot_id", SnapshotId()),
    ):
        first, *others = (getattr(data, name) for data in answered.partitions)
        assert first == empty
        assert all(other is first for other in others)


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_BROKER_EPOCH])
async def test_refused_request_has_its_code_for_each_partition(harness, code):
    """Only a partition of this broker may be suspect."""
    suspects = []
    harness.partitions.suspects.add = lambda *suspect: suspects.append(suspect)
    fetch, reader, slots = fetch_of(harness, wanted(0, 3), wanted(9, 4), refused=code)
    assert started(fetch.poll()), "it does not wait"
    [answered] = started(fetch.responses(slots))
    assert answered.partitions == [
        PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            records=b"",
        )
        for index in (0, 9)
    ]
    is_storage = code is ErrorCode.KAFKA_STORAGE_ERROR
    assert suspects == ([(TopicPartition("t", 0), 3, 1 << 20)] if is_storage else [])
    fetch.keep_unfinished()
    assert list(reader.changed) == slots


# -- clients that take no message larger than they asked for


@pytest.mark.parametrize(
    ("wished", "room", "offset", "is_told"),
    [
        (50, 50, 0, True),
        (50, 51, 0, True),
        (51, 50, 0, False),  # the record may fit into the next response
        (50, 50, 1, False),  # no record is too large
    ],
)
async def test_too_large_message_is_reported_for_own_limit(harness, wished, room, offset, is_told):
    fill(harness, 0, values=(b"x" * 500,))
    asked = wanted(0, offset, max_bytes=wished)
    fetch, _, slots = fetch_of(harness, asked, max_bytes=room, whole_messages=False)
    assert started(fetch.poll()) == is_told
    assert fetch.size == 0
    [data] = started(fetch.responses(slots))[0].partitions
    assert data.records == (OVERFLOW if is_told else b"")


# -- the kept result


async def test_unknown_end_is_examined_by_next_request(harness):
    for epoch in (0, 1):
        moved = partition((11, 12), leader_epoch=epoch)
        harness.set_image(topic("t", moved), brokers=BROKERS)
        fill(harness, 0)
    fetch, reader, slots = fetch_of(harness, wanted(0), in_session=True)
    assert not started(fetch.poll())
    fetch.keep_unfinished()
    assert list(reader.changed) == slots


async def test_unused_partition_keeps_only_slots_of_sessions(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    for in_session in (True, False):
        fetch, _, [slot] = fetch_of(harness, wanted(0), replica_id=12, in_session=in_session)
        started(fetch.poll())
        assert (slot.attached_to is not None) == in_session


async def test_leader_opens_log_for_its_first_consumer(harness):
    started(fetch_of(harness, wanted(0), reads_followers=True)[0].poll())
    assert harness.partitions.find(TopicPartition("t", 0)).open_log is not None


async def test_slot_listens_only_to_its_latest_partition(harness):
    """The slot no longer listens to the previous partition, which holds no reference to it."""
    reader = FetchReader(in_session=True)
    slot = Slot(reader, FetchTopic(topic="t", partitions=[]), wanted(0), upto_end=False)
    first, second = (harness.partitions.find(TopicPartition("t", index)) for index in range(2))
    slot.attach(first)
    slot.attach(second)
    first.watchers.notify_all()
    assert not reader.changed
    second.watchers.notify_all()
    assert list(reader.changed) == [slot]
