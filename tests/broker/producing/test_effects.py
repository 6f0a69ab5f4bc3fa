"""The effects that the stages of Produce yield: a wait for the disk, and the checks in the thread with their costs."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest
import trio

from tests.broker.batches import append
from tests.broker.producing.test_await_replicas import appended, failed, not_appended
from tests.broker.producing.test_validate import harness, request
from tests.cluster.data_side import topic_id
from trimaran.broker.producing import validate as module
from trimaran.broker.producing.await_replicas import await_disk
from trimaran.broker.producing.partition_append import resolve
from trimaran.broker.producing.validate import find_leaders, validate
from trimaran.broker.producing.verify import verify
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.validation.validate import BYTES_CHECKED_AT_ONCE_MAX, DECOMPRESSED_BYTES_MAX
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.transport.scheduling.effects import Blocking

__all__ = ["harness"]


def written(flushed, required=5, *, is_behind=True):
    """Returns a part whose log is flushed up to an offset."""
    part = appended(0, required)

    async def wait_flushed(offset):
        part.asked.append(offset)
        await trio.sleep(4)
        part.leader.log.flushed_offset = offset

    part.leader = SimpleNamespace(
        disk_is_behind=is_behind,
        log=SimpleNamespace(flushed_offset=flushed),
        wait_flushed=wait_flushed,
    )
    return part


@pytest.fixture(autouse=True)
def _parts_note_waits(monkeypatch):
    """Gives parts an attribute `asked`: the offsets for which a wait was begun."""
    base = module.PartitionAppend

    class Noting(base):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.asked = []

    monkeypatch.setattr("tests.broker.producing.test_await_replicas.PartitionAppend", Noting)


def test_disk_that_keeps_up_needs_no_wait():
    without_records = not_appended()
    without_records.required_offset = None
    parts = [failed(), without_records, written(0, is_behind=False)]
    assert list(await_disk(parts)) == []
    assert [bytes(part.records) for part in parts] == [b"records"] * 3


async def test_written_parts_wait_for_slow_disk(autojump_clock):
    first, second, other = written(4), written(3), written(0, is_behind=False)
    parts = [failed(), first, other, second]
    [effect] = await_disk(parts)
    assert [(bytes(part.records), part.batches) for part in parts] == [(b"", ())] * 4
    assert (effect.holds_request, effect.ready()) == (True, False)
    first.leader.log.flushed_offset = 5
    assert not effect.ready()
    first.leader.log.flushed_offset = 4
    await effect.wait()
    assert (first.asked, second.asked, other.asked) == ([5], [5], [])
    assert (effect.ready(), trio.current_time()) == (True, 8)


async def test_slow_disk_is_awaited_ten_seconds(autojump_clock):
    parts = [written(0) for _ in range(3)]
    [effect] = await_disk(parts)
    await effect.wait()
    assert (trio.current_time(), effect.ready()) == (10, False)
    assert [part.asked for part in parts] == [[5]] * 3


@pytest.mark.parametrize(
    ("version", "costs"),
    [(2, ["all"]), (3, ["tried", "all"]), (13, ["tried", "all"])],
)
def test_thread_tries_a_batch_before_it_checks_it(harness, monkeypatch, version, costs):
    """Requests before version 3 have message sets, which are converted as a whole."""
    monkeypatch.setattr(module, "BYTES_TRIED_MAX", 1000)
    record = NewRecord(None, bytes(BYTES_CHECKED_AT_ONCE_MAX), now_ms())
    large = build_batch([record], compression=Compression.GZIP)
    _, parts = stopped(resolve(request(large), harness.partitions))
    stopped(find_leaders(parts, harness.partitions))
    running, found, result = validate(parts, now_ms, version), [], None
    with suppress(StopIteration):
        while True:
            effect = running.send(result)
            found.append(effect.cost_bytes)
            result = effect.call()
    assert found == [{"tried": 1000, "all": DECOMPRESSED_BYTES_MAX}[cost] for cost in costs]
    assert [(part.failed, len(part.batches)) for part in parts] == [(False, 1)]


def stopped(handling):
    """Returns the result of a stage that only pauses."""
    while True:
        try:
            assert next(handling) is None
        except StopIteration as end:
            return end.value


def test_failed_part_is_not_validated():
    without_leader = appended(0)
    without_leader.leader = None
    refused = appended(0)
    refused.failed = True
    assert TopicPartition("t", 0) == refused.key
    assert list(validate([without_leader, refused], now_ms, 13)) == []
    assert [part.batches for part in (without_leader, refused)] == [["a batch"]] * 2


def test_producers_of_leader_are_loaded_in_a_thread(harness, monkeypatch):
    append(harness, b"a")
    log = harness.partitions.leader_of(TopicPartition("t", 0)).log
    monkeypatch.setattr("trimaran.broker.partitions.replica.READ_AT_ONCE_BYTES", 0)
    _, parts = stopped(resolve(request(b""), harness.partitions))
    assert list(find_leaders(parts, harness.partitions)) == []
    log._producers.forget()
    assert isinstance(next(find_leaders(parts, harness.partitions)), Blocking)


@pytest.mark.parametrize(("count", "pauses"), [(1, 0), (2, 2), (3, 3)])
def test_verification_pauses_between_partitions(count, pauses):
    producers = SimpleNamespace(check_epoch=lambda *_: None, in_transaction=lambda *_: True)
    part = SimpleNamespace(
        failed=False,
        batches=[SimpleNamespace(attributes=0x10, producer_id=7, producer_epoch=0)],
        leader=SimpleNamespace(log=SimpleNamespace(producers=producers)),
    )
    assert list(verify([part] * count, None, "id", 13)) == [None] * pauses


def test_records_of_each_part_are_a_view(harness):
    given = [None, b"records", memoryview(b"view")]
    data = [PartitionProduceData(index=index, records=item) for index, item in enumerate(given)]
    topics = [TopicProduceData(topic_id=topic_id("t"), partition_data=data)]
    asked = ProduceRequest(acks=1, timeout_ms=1, topic_data=topics)
    _, parts = stopped(resolve(asked, harness.partitions))
    assert [(type(part.records), bytes(part.records)) for part in parts] == [
        (memoryview, b""),
        (memoryview, b"records"),
        (memoryview, b"view"),
    ]
    assert parts[2].records is given[2]
