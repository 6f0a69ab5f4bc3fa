"""Verification that the files of a partition's directory are consistent: no file is written or repaired.

It checks every batch (header, CRC, offsets that ascend and lie in the segment, epochs that do not decrease, records
that match the header); every index entry against the batch that it names; the transaction index against the markers;
producer snapshots against the batches; `leader-epoch-checkpoint` against the epochs. A directory that is written
meanwhile may show a torn end.

Source: Kafka's `DumpLogSegments` (its `--index-sanity-check`, `--verify-index-only`), `LogSegment.recover`. Not
implemented: entries lost by compaction or retention are not reported: a producer known only from the batches, an abort
of a transaction that began below the log's start.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import MAGIC, BatchView, has_valid_crc
from trimaran.log.batches.control_records import read_control_records
from trimaran.log.batches.records import iter_records
from trimaran.log.disk.checkpoints import (
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    CheckpointDamaged,
    read_offsets,
)
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.inspection.reader import SegmentFile, list_segments
from trimaran.log.old_formats.old_batches import as_v2, opened
from trimaran.log.partitions.names import partition_of
from trimaran.log.producers.entry import ProducerEntry
from trimaran.log.producers.marker import read_end_marker
from trimaran.log.producers.snapshots import parse_snapshot
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.index import IndexDamaged, OffsetIndex, TimeIndex, ascends
from trimaran.log.segments.recovery import list_snapshots
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.log.segments.segment import (
    INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from trimaran.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset, Position, ProducerId

PROBLEMS_OF_A_FILE_MAX = 20  # a file of another log would yield a problem for each entry
END_BLOCK_BYTES = 1 << 20


class LogProblem(NamedTuple):
    """A problem. `position` is the position in the file; None if the problem concerns the whole file."""

    file: str
    position: Position | None
    what: str


class _Span(NamedTuple):
    """The first and the last offset of a batch's records, whether the offsets ascend, and the largest timestamp."""

    first: Offset
    last: Offset
    ascend: bool
    timestamp_ms: int


class _Place(NamedTuple):
    """The facts about a batch that are kept."""

    position: Position
    base_offset: Offset
    last_offset: Offset
    max_timestamp: int
    magic: int


def verify(directory: Path) -> Iterator[LogProblem]:
    """Returns the problems of a partition's directory, file by file. Raises OSError."""
    check = _Check(directory)
    segments = list_segments(directory)
    ends = [segment.base_offset for segment in segments[1:]]
    for number, segment in enumerate(segments):
        yield from check.segment(segment, ends[number] if number < len(ends) else None)
    yield from check.epochs()


class _Check:
    """One pass over the log, with the state accumulated from the batches."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._expected = Offset(0)
        self._epoch = NO_LEADER_EPOCH
        self._epochs: list[
            tuple[LeaderEpoch, Offset, Offset]
        ] = []  # epoch, its first offset here, its last
        self._producers = ProducerState()
        self._snapshots = list_snapshots(directory, REAL_FILES)
        self._markers: dict[
            Offset, ProducerId
        ] = {}  # of the segment: last offset of an abort, its producer
        self._aborted: list[AbortedTransaction] = []  # of the segment
        self._places: list[_Place] = []  # of the segment

    def segment(self, segment: SegmentFile, end: Offset | None) -> Iterator[LogProblem]:
        self._markers, self._aborted, self._places = {}, [], []
        self._expected = max(self._expected, segment.base_offset)
        yield from _first(self._batches(segment, end))
        yield from _first(self._offset_index(segment))
        yield from _first(self._time_index(segment))
        yield from _first(self._transaction_index(segment))

    # Batches

    def _batches(self, segment: SegmentFile, end: Offset | None) -> Iterator[LogProblem]:
        path = Path(segment.path)
        file = REAL_FILES.open(path, write=False)
        reached = 0
        for position, header in scan_headers(REAL_FILES, file, 0, segment.size):
            batch = read_batch(REAL_FILES, file, position, header.size)
            if batch is None:
                break
            reached = position + batch.size
            if not has_valid_crc(batch):
                yield LogProblem(segment.path, position, f"wrong CRC in {batch!r}")
                continue
            batch = opened(batch)
            yield from self._snapshots_until(batch.base_offset)
            yield from (
                LogProblem(segment.path, position, what) for what in self._wrong_in(batch, end)
            )
            self._note(position, batch)
        yield from self._snapshots_until(self._expected if end is None else end)
        if reached < segment.size and not (end is None and _is_zero(path, reached, segment.size)):
            left = segment.size - reached
            yield LogProblem(
                segment.path, Position(reached), f"no batch begins here, {left} bytes are left"
            )

    def _wrong_in(self, batch: BatchView, end: int | None) -> Iterator[str]:
        if batch.base_offset < self._expected:
            yield f"offset {batch.base_offset} where {self._expected} or more must be"
        if end is not None and batch.last_offset >= end:
            yield f"offset {batch.last_offset} in a segment that ends before {end}"
        if 0 <= batch.leader_epoch < self._epoch:
            yield f"epoch {batch.leader_epoch} after {self._epoch}"
        if not batch.count:
            return
        try:
            span = _span_of(as_v2(batch))
            if batch.is_control:
                read_control_records(batch)
        except (RemoteProtocolError, KafkaError) as error:
            yield f"damaged records: {error}"
            return
        if not span.ascend or span.first < batch.base_offset or span.last > batch.last_offset:
            yield f"records at offsets {span.first} to {span.last} in {batch!r}"
        if not batch.is_control and span.timestamp_ms > batch.max_timestamp:
            yield f"a record is later than the largest timestamp of {batch!r}"

    def _note(self, position: Position, batch: BatchView) -> None:
        self._expected = max(self._expected, batch.next_offset)
        self._places.append(
            _Place(position, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.magic)
        )
        if batch.leader_epoch > self._epoch:
            self._epoch = batch.leader_epoch
            self._epochs.append((batch.leader_epoch, batch.base_offset, batch.last_offset))
        elif batch.leader_epoch == self._epoch >= 0:
            self._epochs[-1] = (self._epoch, self._epochs[-1][1], batch.last_offset)
        if batch.magic < MAGIC:
            return
        aborted = self._producers.aborted_by(batch)
        if aborted is not None:
            self._aborted.append(aborted)
        if batch.is_control:
            marker = read_end_marker(batch)
            if marker is not None and not marker.is_commit:
                self._markers[batch.last_offset] = batch.producer_id
        self._producers.update(batch)

    # Indexes

    def _offset_index(self, segment: SegmentFile) -> Iterator[LogProblem]:
        path = Path(segment.path).with_suffix(INDEX_SUFFIX)
        known: dict[int, int] = {
            place.position: number for number, place in enumerate(self._places)
        }
        try:
            entries = _entries(path, OffsetIndex.layout)
        except IndexDamaged as damage:
            yield LogProblem(str(path), None, str(damage))
            return
        for relative, position in entries:
            offset, number = segment.base_offset + relative, known.get(position)
            if number is None:
                what = f"offset {offset}: no batch begins at position {position}"
                yield LogProblem(str(path), None, what)
            elif not self._is_reached_from(number, offset):
                place = self._places[number]
                what = f"offset {offset} at position {position}, where {place.base_offset} to {place.last_offset} are"
                yield LogProblem(str(path), None, what)

    def _is_reached_from(self, number: int, offset: Offset) -> bool:
        """Whether the look-up of `offset` may begin at a batch: the offset is in it or later, because Kafka indexes
        batches appended together by their last offset.
        """
        return self._places[number].base_offset <= offset <= self._places[-1].last_offset

    def _time_index(self, segment: SegmentFile) -> Iterator[LogProblem]:
        path = Path(segment.path).with_suffix(TIME_INDEX_SUFFIX)
        lasts = [place.last_offset for place in self._places]
        try:
            entries = _entries(path, TimeIndex.layout)
        except IndexDamaged as damage:
            yield LogProblem(str(path), None, str(damage))
            return
        for timestamp, relative in entries:
            offset = segment.base_offset + relative
            at = bisect_left(lasts, offset)
            if at < len(lasts) and self._places[at].magic == 0:
                continue  # Kafka 0.10 indexed the producer's timestamp, which v0 cannot store
            if at == len(lasts) or self._places[at].max_timestamp != timestamp:
                what = f"timestamp {timestamp}: the batch with offset {offset} has another, or is not there"
                yield LogProblem(str(path), None, what)
            elif any(place.max_timestamp > timestamp for place in self._places[:at]):
                yield LogProblem(
                    str(path),
                    None,
                    f"timestamp {timestamp}: a batch before offset {offset} is later",
                )

    def _transaction_index(self, segment: SegmentFile) -> Iterator[LogProblem]:
        path = Path(segment.path).with_suffix(TRANSACTION_INDEX_SUFFIX)
        try:
            entries = TransactionIndex(path, REAL_FILES).entries()
        except IndexDamaged as damage:
            yield LogProblem(str(path), None, str(damage))
            return
        listed = {(entry.producer_id, entry.last_offset): entry for entry in entries}
        for entry in entries:
            if self._markers.get(entry.last_offset) != entry.producer_id:
                what = f"{entry}: no abort of this producer at offset {entry.last_offset}"
                yield LogProblem(str(path), None, what)
            elif entry.last_stable_offset > entry.last_offset + 1:
                what = f"{entry}: what was stable does not reach beyond its marker"
                yield LogProblem(str(path), None, what)
        for aborted in self._aborted:
            found = listed.get((aborted.producer_id, aborted.last_offset))
            if found is None:
                yield LogProblem(str(path), None, f"{aborted} is missing")
            elif found.first_offset > aborted.first_offset:
                what = f"{found} begins at offset {aborted.first_offset} by the batches"
                yield LogProblem(str(path), None, what)

    # Files other than segments

    def _snapshots_until(self, offset: Offset) -> Iterator[LogProblem]:
        while self._snapshots and self._snapshots[0] <= offset:
            yield from _first(self._snapshot(self._snapshots.pop(0)))

    def _snapshot(self, offset: Offset) -> Iterator[LogProblem]:
        path = self._directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            entries = list(parse_snapshot(REAL_FILES.read_bytes(path), offset).entries())
        except ValueError as error:
            yield LogProblem(str(path), None, str(error))
            return
        for producer_id, entry in entries:
            known = self._producers.get(producer_id)
            if known is not None and _facts(known) != _facts(entry):
                yield LogProblem(
                    str(path),
                    None,
                    f"producer {producer_id}: {_facts(entry)}, by the batches {_facts(known)}",
                )

    def epochs(self) -> Iterator[LogProblem]:
        path = self._directory / LEADER_EPOCHS
        try:
            epochs = LeaderEpochs.parse(path, REAL_FILES.read_bytes(path))
        except FileNotFoundError:
            return
        except CheckpointDamaged as damage:
            yield LogProblem(str(path), None, str(damage))
            return
        log_start = next((start for _, start in epochs.entries()), 0)
        flushed_offset = self._recovery_point()
        for epoch, first, last in self._epochs:
            found = epochs.epoch_for(Offset(max(first, log_start)))
            is_news = first >= flushed_offset and epoch > epochs.latest_epoch
            if found != epoch and last >= log_start and not is_news:
                what = f"offset {first} is of epoch {found}, its batch of {epoch}"
                yield LogProblem(str(path), None, what)

    def _recovery_point(self) -> Offset:
        """Returns the recovery point: records above it, and the file of epochs, may not be flushed yet. Without a
        checkpoint no record is known to be flushed.
        """
        try:
            points = read_offsets(self._directory.parent / RECOVERY_POINTS)
        except CheckpointDamaged:
            return Offset(0)
        key = partition_of(self._directory.name)
        return points.get(key, Offset(0)) if key else Offset(0)


def _span_of(batch: BatchView) -> _Span:
    """Reads the records of a batch one by one, without headers; there is at least one. Raises as `iter_records`
    does.
    """
    found: _Span | None = None
    for record, _ in iter_records(batch, headers_max=0):
        at, timestamp_ms = record.offset, record.timestamp_ms
        if found is None:
            found = _Span(at, at, True, timestamp_ms)
        else:
            ascend, latest = found.ascend and at > found.last, max(found.timestamp_ms, timestamp_ms)
            found = _Span(found.first, at, ascend, latest)
    assert found is not None
    return found


def _facts(entry: ProducerEntry) -> str:
    last = entry.batches[-1] if entry.batches else None
    sequence, offset = (last.last_sequence, last.last_offset) if last else (-1, -1)
    return f"epoch {entry.epoch}, sequence {sequence} at offset {offset}, transaction from {entry.transaction_start}"


def _entries(path: Path, layout: struct.Struct) -> list[tuple[int, int]]:
    """Returns the entries of an index file, without the zeros that Kafka preallocates; none if there is no file. Raises
    IndexDamaged.
    """
    try:
        data = REAL_FILES.read_bytes(path)
    except FileNotFoundError:
        return []
    if len(data) % layout.size:
        raise IndexDamaged(f"{path}: {len(data)} bytes are no whole entries")
    used = -(-len(data.rstrip(b"\0")) // layout.size) * layout.size
    if not ascends(data[:used], layout):
        raise IndexDamaged(f"{path}: entries do not ascend")
    return [(first, second) for first, second in layout.iter_unpack(data[:used])]


def _is_zero(path: Path, start: int, end: int) -> bool:
    """Whether the remaining bytes are zeros, as in a preallocated file."""
    file = REAL_FILES.open(path, write=False)
    for position in range(start, end, END_BLOCK_BYTES):
        if REAL_FILES.pread(file, min(END_BLOCK_BYTES, end - position), position).strip(b"\0"):
            return False
    return True


def _first(problems: Iterator[LogProblem]) -> Iterator[LogProblem]:
    """Yields the first problems of a file, and a note if there are more."""
    for number, problem in enumerate(problems):
        if number == PROBLEMS_OF_A_FILE_MAX:
            yield LogProblem(problem.file, None, "… and more")
            return
        yield problem
