"""A window of records of many partitions: the next ones after a position in each, the last ones before it, or those
after it that contain a text. Each read is bounded in bytes, and the next one continues where it ended.

Records of a partition are in the order of offsets, those of several partitions are merged by their times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset, end_offsets
from trimaran.client.reader import READ_COMMITTED, FetchedBatch, PartitionReader
from trimaran.wire.identity import Offset, TopicPartition

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

READ_BYTES_MAX = 16 << 20
"""Batches that a window reads: it may begin in each of many partitions, with large records."""
SCAN_BYTES_MAX = 4 << 20
"""Batches that one step of a search reads; decoding them takes some tenths of a second."""

Positions = Mapping[TopicPartition, Offset]
Found = list[tuple[TopicPartition, "Record"]]


class RecordWindow(NamedTuple):
    """Records, and the positions from which reading continues: `before` are the ends of the older records, `after` the
    beginnings of the newer ones. `is_cut`: a bound was reached, so there are more records in between.
    """

    records: Found
    before: Positions
    after: Positions
    is_cut: bool = False


class ScanStep(NamedTuple):
    """One step of a search: the records that it found, the positions of the next step, and the records and bytes that
    it read.
    """

    records: Found
    after: Positions
    is_over: bool
    scanned: int
    bytes: int


class RecordWindows:
    """Reads windows of partitions. Partitions whose leader does not respond are left out, and named in `silent`."""

    def __init__(
        self,
        client: BlockingClient,
        partitions: Sequence[TopicPartition],
        *,
        is_committed: bool,
        before_round: Callable[[], object] = lambda: None,
    ) -> None:
        isolation = READ_COMMITTED if is_committed else 0
        self.starts = end_offsets(client, partitions, EARLIEST_TIMESTAMP)
        if not self.starts and partitions:
            # A request for a single partition waits longer, is retried, and raises the error of its leader.
            first = end_offset(client, partitions[0], EARLIEST_TIMESTAMP)
            self.starts = {partitions[0]: first} | end_offsets(
                client, partitions, EARLIEST_TIMESTAMP
            )
        self.ends = end_offsets(client, partitions, LATEST_TIMESTAMP, isolation=isolation)
        self.partitions = [each for each in partitions if each in self.starts and each in self.ends]
        self.silent = [each for each in partitions if each not in self.partitions]
        self._reader = PartitionReader(client, self.partitions, is_committed=is_committed)
        self._before_round = before_round
        self._bytes = 0

    def clipped(self, positions: Positions) -> dict[TopicPartition, Offset]:
        """Returns a position in each partition; those that are not named, or no longer in the log, are its start."""
        return {
            each: min(max(positions.get(each, Offset(0)), self.starts[each]), self.ends[each])
            for each in self.partitions
        }

    def after(self, positions: Positions, limit: int) -> RecordWindow:
        """Returns the first `limit` records from the positions on."""
        begin = self.clipped(positions)
        found, reached, is_cut = self._first(begin, self.ends, limit)
        taken = list(islice(heapq.merge(*found.values(), key=_time), limit))
        after = dict(begin)
        for where, record in taken:
            after[where] = Offset(record.offset + 1)
        # A partition that is read to its end has no newer ones, though offsets without records may follow.
        for each, those in found.items():
            if not those or after[each] > those[-1][1].offset:
                after[each] = reached[each]
        return RecordWindow(taken, begin, after, is_cut)

    def before(self, positions: Positions, limit: int) -> RecordWindow:
        """Returns the last `limit` records before the positions."""
        end = self.clipped(positions)
        low = dict(end)
        found: dict[TopicPartition, Found] = {each: [] for each in self.partitions}
        span, is_cut = limit, False
        while not is_cut:
            short = [
                each for each in found if len(found[each]) < limit and low[each] > self.starts[each]
            ]
            if not short:
                break
            to = {each: low[each] for each in short}
            for each in short:
                low[each] = Offset(max(self.starts[each], low[each] - span))
            # Offsets may have no records, after compaction or because of transactions: then the loop reads from further
            # back.
            older, _, is_cut = self._first({each: low[each] for each in short}, to, None)
            for each in short:
                found[each] = [*older[each], *found[each]][-limit:]
            span *= 4
        backward = (reversed(each) for each in found.values())
        merged = heapq.merge(*backward, key=_time, reverse=True)
        taken = list(islice(merged, limit))[::-1]
        before = dict(end)
        for where, record in reversed(taken):
            before[where] = record.offset
        for each, those in found.items():
            if len(those) < limit and (not those or before[each] == those[0][1].offset):
                before[each] = low[each]
        return RecordWindow(taken, before, end, is_cut)

    def scan(
        self, positions: Positions, limit: int, is_wanted: Callable[[Record], bool]
    ) -> ScanStep:
        """Searches from the positions on, until `limit` records are found or `SCAN_BYTES_MAX` are read."""
        at = self.clipped(positions)
        taken: Found = []
        scanned = 0
        for where, record in self._from(at, self.ends, SCAN_BYTES_MAX):
            scanned += 1
            if is_wanted(record):
                taken.append((where, record))
                if len(taken) == limit:
                    break
        is_over = all(at[each] >= self.ends[each] for each in self.partitions)
        return ScanStep(sorted(taken, key=_time), at, is_over, scanned, self._bytes)

    def share_before(self, positions: Positions) -> float:
        """Returns the share of the offsets that are before the positions, from 0 to 1."""
        total = sum(self.ends[each] - self.starts[each] for each in self.partitions)
        passed = sum(place - self.starts[each] for each, place in self.clipped(positions).items())
        return passed / total if total else 1.0

    def _first(
        self, begin: Positions, end: Positions, limit: int | None
    ) -> tuple[dict[TopicPartition, Found], Positions, bool]:
        """Returns the first `limit` records of each partition, the positions behind them, and whether a bound of bytes
        ended the reading.
        """
        at = dict(begin)
        found: dict[TopicPartition, Found] = {each: [] for each in at}
        until = dict(end)
        for where, record in self._from(at, until, READ_BYTES_MAX):
            found[where].append((where, record))
            if len(found[where]) == limit:
                until[where] = at[where]
        return found, at, any(at[each] < until[each] for each in at)

    def _from(
        self, at: dict[TopicPartition, Offset], until: Positions, bytes_max: int
    ) -> Iterator[tuple[TopicPartition, Record]]:
        """Yields the records of each partition in order and moves `at` behind each, up to `until`, which may be moved
        back meanwhile, or until batches of `bytes_max` are read.
        """
        self._bytes = 0
        while left := {each: place for each, place in at.items() if place < until[each]}:
            self._before_round()
            has_moved = False
            for where, batches in self._reader.round(left, wait_ms=0):
                for batch in batches:
                    if at[where] >= until[where]:
                        break
                    has_moved = True
                    self._bytes += batch.batch.size
                    for record in _of_batch(batch, at[where], until[where]):
                        at[where] = Offset(record.offset + 1)
                        yield where, record
                        if at[where] >= until[where]:
                            break
                    else:
                        at[where] = min(max(at[where], batch.next_offset), until[where])
                    if self._bytes >= bytes_max:
                        return
            if not has_moved:
                return  # no records yet: the end was reported by another leader


def _of_batch(batch: FetchedBatch, begin: Offset, end: Offset) -> Iterator[Record]:
    for record in batch.records():
        if record.offset >= end:
            return
        if record.offset >= begin:
            yield record


def _time(one: tuple[TopicPartition, Record]) -> tuple[int, TopicPartition, Offset]:
    return one[1].timestamp_ms, one[0], one[1].offset


def parse_positions(text: str, topic: str) -> dict[TopicPartition, Offset]:
    """Parses `0:17,2:5`: offsets by partition. Raises ValueError."""
    found = {}
    for part in text.split(","):
        index, colon, offset = part.partition(":")
        if not (colon and index.isdecimal() and offset.isdecimal()) or len(part) > 30:
            raise ValueError(f"{part[:30]!r} is not PARTITION:OFFSET")
        found[TopicPartition(topic, int(index))] = Offset(offset)
    return found


def positions_text(positions: Iterable[tuple[TopicPartition, Offset]]) -> str:
    """Returns the text that `parse_positions` reads."""
    return ",".join(f"{where.partition}:{offset}" for where, offset in positions)
