"""Committed records reach the listener in order, and large batches let other tasks take turns."""

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import partition, topic, uid
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.record_batches import in_pieces, metadata_records
from trimaran.quorum.raft_log.snapshot_format import (
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from trimaran.quorum.replica.appliers import RECORDS_AT_ONCE, Applier
from trimaran.wire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)

COUNT = 3 * RECORDS_AT_ONCE


def values(count: int) -> list[bytes]:
    """Returns a topic and its partitions: `count` records."""
    records = [topic("t", 1), *(partition(1, i, [1, 2, 3]) for i in range(count - 1))]
    return [encode_metadata_record(r, metadata_record_version(type(r), 30)) for r in records]


def batch_of(count: int, base_offset: int = 0, compression: Compression = Compression.NONE):
    records = [NewRecord(None, value, 1000) for value in values(count)]
    data = build_batch(records, base_offset=base_offset, leader_epoch=2, compression=compression)
    return next(iter_batches(memoryview(data)))


class Turns:
    """A loader that notes how many turns another task has had at each call, and the visible state then."""

    def __init__(self) -> None:
        self.loader = MetadataLoader()
        self.turns = 0
        self.seen: list[tuple[int, int]] = []

    async def count(self) -> None:
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()

    def _note(self) -> None:
        self.seen.append((self.turns, len(self.loader.image.topics.by_id)))

    def apply_committed(self, batch) -> None:
        self._note()
        self.loader.apply_committed(batch)

    def load_snapshot(self, snapshot) -> None:
        self._note()
        self.loader.load_snapshot(snapshot)

    async def lead(self, epoch: int) -> None:
        raise NotImplementedError

    def ensure_in_turns(self) -> None:
        turns = [turn for turn, _ in self.seen]
        assert len(turns) == COUNT // RECORDS_AT_ONCE
        assert turns[0] < turns[-1]  # of two tasks in one round of the loop either may run first
        assert {topics for _, topics in self.seen} == {0}
        assert len(self.loader.image.topics.by_name["t"].partitions) == COUNT - 1


async def test_large_batch_is_applied_in_turns_visibly_atomic(nursery) -> None:
    log, high_watermark, listener = MemoryLog(), Watermark(0), Turns()
    applier = Applier(log, listener, high_watermark)
    log.append_fetched(batch_of(COUNT).buffer)
    nursery.start_soon(listener.count)
    nursery.start_soon(applier.run)
    high_watermark.advance(COUNT)
    applier.wake()
    await applier.applied.wait_reached(COUNT)
    listener.ensure_in_turns()
    assert listener.loader.image.provenance == (COUNT - 1, 2, 1000)


def test_small_batch_is_applied_in_committing_step() -> None:
    log, high_watermark, listener = MemoryLog(), Watermark(0), Turns()
    applier = Applier(log, listener, high_watermark)
    log.append_fetched(batch_of(9).buffer)
    high_watermark.advance(9)
    applier.wake()
    assert applier.applied.offset == 9
    assert len(listener.loader.image.topics.by_name["t"].partitions) == 8


async def test_watermark_inside_batch_waits_for_next(nursery) -> None:
    """No leader sends such a watermark; a node that receives one applies the whole batches below it."""
    log, high_watermark, listener = MemoryLog(), Watermark(0), Turns()
    log.append_fetched(batch_of(3).buffer)
    log.append_fetched(batch_of(3, base_offset=3).buffer)
    applier = Applier(log, listener, high_watermark)
    nursery.start_soon(applier.run)
    applied = []
    for offset in (2, 4, 5, 6):
        high_watermark.advance(offset)
        applier.wake()
        await trio.testing.wait_all_tasks_blocked()
        applied.append(applier.applied.offset)
    assert applied == [0, 3, 3, 6]


async def test_large_snapshot_is_applied_in_turns_visibly_atomic(nursery) -> None:
    listener = Turns()
    applier = Applier(MemoryLog(), listener, Watermark(0))
    snapshot_id = OffsetAndEpoch(7, 2)
    data = b"".join(encode_snapshot(snapshot_id, values(COUNT), appended_at_ms=5, now_ms=9))
    nursery.start_soon(listener.count)
    nursery.start_soon(applier.run)
    applier.replace(check_snapshot(snapshot_id, data))
    await applier.applied.wait_reached(7)
    listener.ensure_in_turns()
    assert listener.loader.image.provenance == (6, 2, 5)


def test_snapshot_in_pieces_equals_whole_snapshot() -> None:
    snapshot_id = OffsetAndEpoch(7, 2)
    for count in (0, 1, 9, 10, 11):
        encoded = encode_snapshot(snapshot_id, values(count) if count else [], appended_at_ms=5, now_ms=9)  # fmt: skip
        data = b"".join(encoded)
        pieces = list(check_snapshot(snapshot_id, data).pieces(5))
        whole = decode_snapshot(snapshot_id, data)
        assert [r for piece in pieces for r in piece.records] == whole.records
        assert [piece.begins for piece in pieces] == [True] + [False] * (len(pieces) - 1)
        assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]


@given(st.lists(st.integers()), st.integers(1, 5))
def test_pieces_have_given_size_and_mark_last(items: list[int], size: int) -> None:
    pieces = list(in_pieces(items, size))
    naive = [items[at : at + size] for at in range(0, len(items), size)] or [[]]
    assert [piece for piece, _ in pieces] == naive
    assert [last for _, last in pieces] == [False] * (len(naive) - 1) + [True]


def test_records_equal_those_of_the_plain_decoder() -> None:
    for compression in (Compression.NONE, Compression.GZIP):
        batch = batch_of(5, compression=compression)
        plain = [decode_metadata_record(record.value or b"") for record in decode_records(batch)]
        assert list(metadata_records(batch)) == plain
        assert plain[1].topic_id == uid(1)
