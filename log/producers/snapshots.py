"""Producer snapshots of a partition's directory: written when a segment is rolled and at a clean shutdown, and read
back together with the tail of the log.

Source: Kafka's `ProducerStateManager` (`takeSnapshot`, `truncateAndReload`) and `UnifiedLog.rebuildProducerState`. A
snapshot named after offset N holds the state of all batches below N. A damaged one is renamed, which is logged, and the
previous one is used.

```
.snapshot = int16 version (1), uint32 CRC-32C of the rest, int32 count, then per producer
            int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 last offset - first offset,
            int64 timestamp, int32 coordinator epoch, int64 first offset of its open transaction (-1 none)
```
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import crc32c

from trimaran.log.batches.batch import SEQUENCE_SPACE, BatchView
from trimaran.log.disk.atomic_file import DAMAGED_SUFFIX, write_atomically, write_unsynced
from trimaran.log.disk.files import Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.log.producers.entry import KeptBatch, ProducerEntry
from trimaran.log.producers.marker import CONTROL_BATCH_BYTES_MAX
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.recovery import list_snapshots
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.log.segments.segment import SNAPSHOT_SUFFIX, Segment, file_name
from trimaran.log.steps import Steps
from trimaran.wire.identity import (
    NO_OFFSET,
    CoordinatorEpoch,
    Offset,
    Position,
    ProducerEpoch,
    ProducerId,
)
from trimaran.wire.text import events

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


def format_snapshot(state: ProducerState) -> bytes:
    pieces = SnapshotInPieces(state)
    pieces.go_on(len(state))
    return pieces.data()


class SnapshotInPieces:
    """Makes the snapshot of the current state. The state may advance meanwhile if its `before_change` is `note`."""

    def __init__(self, state: ProducerState) -> None:
        self.end_offset = state.end_offset
        self._left = dict(state.entries())
        self._order = iter(list(self._left))
        self._out = bytearray(_HEAD.pack(1, 0, len(state)))

    @property
    def is_complete(self) -> bool:
        return not self._left

    def note(self, producer_id: ProducerId, entry: ProducerEntry) -> None:
        """Encodes an entry that is about to change, unless it is already encoded."""
        if self._left.pop(producer_id, None) is not None:
            self._pack(producer_id, entry)

    def go_on(self, count: int) -> None:
        """Encodes up to `count` further entries, the longest idle first."""
        for producer_id in islice(self._order, count):
            if (entry := self._left.pop(producer_id, None)) is not None:
                self._pack(producer_id, entry)

    def _pack(self, producer_id: ProducerId, entry: ProducerEntry) -> None:
        kept = entry.batches[-1] if entry.batches else None
        self._out += _ENTRY.pack(
            producer_id,
            entry.epoch,
            kept.last_sequence if kept else -1,
            kept.last_offset if kept else -1,
            kept.last_offset - kept.base_offset if kept else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )

    def data(self) -> bytes:
        """Returns the content of the file, if the snapshot is complete."""
        assert self.is_complete
        struct.pack_into(">I", self._out, 2, crc32c.crc32c(memoryview(self._out)[_CRC_START:]))
        return bytes(self._out)


def parse_snapshot(data: bytes, end_offset: Offset) -> ProducerState:
    """Returns the state below `end_offset`. Raises ValueError: the snapshot is damaged."""
    if len(data) < _HEAD.size:
        raise ValueError("short producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != 1 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise ValueError(
            f"producer snapshot of version {version}, {count} entries, {len(data)} bytes"
        )
    if crc != crc32c.crc32c(memoryview(data)[_CRC_START:]):
        raise ValueError("producer snapshot with a wrong CRC")
    entries = [_entry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]
    return ProducerState.of_entries(end_offset, entries)


def _entry(
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    last_sequence: int,
    last_offset: Offset,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: CoordinatorEpoch,
    transaction_start: Offset,
) -> tuple[ProducerId, ProducerEntry]:
    entry = ProducerEntry(epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_start = transaction_start
    if last_offset >= 0:
        first_sequence = (
            -1 if last_sequence < 0 else (last_sequence - offset_delta) % SEQUENCE_SPACE
        )
        entry.batches.append(
            KeptBatch(
                first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp
            )
        )
    return producer_id, entry


def write_snapshot(
    directory: Path, state: ProducerState, files: Files, *, durable: bool = False
) -> None:
    """Writes the state to the file named after its end offset; `durable` syncs the file and its name. Raises
    OSError.
    """
    _write(directory, state.end_offset, format_snapshot(state), files, durable=durable)


def write_snapshot_in_pieces(directory: Path, complete: SnapshotInPieces, files: Files) -> None:
    """Writes a snapshot that was made in pieces, without syncing. Raises OSError."""
    _write(directory, complete.end_offset, complete.data(), files, durable=False)


def _write(
    directory: Path, end_offset: Offset, data: bytes, files: Files, *, durable: bool
) -> None:
    write = write_atomically if durable else write_unsynced
    write(directory / file_name(end_offset, SNAPSHOT_SUFFIX), data, files)


def remove_snapshots(
    directory: Path, files: Files, *, above: Offset | None = None, below: Offset | None = None
) -> None:
    """Removes snapshots of offsets above `above`, and those below `below` except the newest of these."""
    offsets = list_snapshots(directory, files)
    gone = [offset for offset in offsets if above is not None and offset > above]
    if below is not None:
        gone += [offset for offset in offsets if offset < below][:-1]
    for offset in gone:
        files.unlink(directory / file_name(offset, SNAPSHOT_SUFFIX))


def load_producers(
    directory: Path,
    segments: Sequence[Segment],
    files: Files,
    *,
    start_offset: Offset,
    end_offset: Offset,
) -> Steps[ProducerState]:
    """Builds the state at `end_offset`: the newest valid snapshot not above it, and the headers from there on.

    Aborts that the transaction indexes lack (after a crash before they were synced) are added to them; a damaged index
    is truncated, and rebuilt from the first batch on. The log must not be truncated between two steps. Raises OSError.
    """
    state = _newest_snapshot(directory, files, end_offset) or ProducerState(start_offset)
    if not (yield from _cut_damaged_indexes(segments)):
        # A crash may lose the entries that the replay adds: the next replay must begin at the same point.
        remove_snapshots(directory, files, above=NO_OFFSET)
        state = ProducerState(start_offset)
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, state.end_offset) - 1)
    begin = state.end_offset
    for segment in segments[first:] if begin < end_offset else ():
        if segment.exists and not segment.removed:
            yield from _replay(segment, state, begin)
            if segment is not segments[-1]:
                segment.release()
    state.end_offset = end_offset
    return state


def _replay(segment: Segment, state: ProducerState, begin: Offset) -> Steps[None]:
    for position, view in scan_headers(segment.files, segment.file, 0, segment.size):
        yield 1
        if view.last_offset >= begin:  # the first batch may extend below the log's start
            whole = _whole_marker(segment, position, view)
            aborted = state.aborted_by(whole)
            if aborted is not None:
                segment.transaction_index.append(aborted)
            state.update(whole)


def _cut_damaged_indexes(segments: Sequence[Segment]) -> Steps[bool]:
    """Truncates damaged transaction indexes; returns whether all are valid."""
    sound = True
    for segment in segments:
        index = segment.transaction_index
        if (index.is_empty and not index.lacks_entries) or segment.removed:
            continue
        yield 1
        try:
            _ = index.last_offset
        except IndexDamaged:
            index.keep_sound()
            sound = False
        sound &= not index.lacks_entries
        index.lacks_entries = False  # the replay that follows adds them
    return sound


def _newest_snapshot(directory: Path, files: Files, end_offset: Offset) -> ProducerState | None:
    for offset in reversed(list_snapshots(directory, files)):
        if offset > end_offset:
            continue
        path = directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            return _read_snapshot(path, offset, files)
        except FileDamaged as damage:
            events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=damage)
            files.rename(path, path.with_name(path.name + DAMAGED_SUFFIX))
    return None


def _read_snapshot(path: Path, offset: Offset, files: Files) -> ProducerState | None:
    """Reads a snapshot. Raises FileDamaged."""
    data = read_small_file(path, files)
    try:
        return None if data is None else parse_snapshot(data, offset)
    except ValueError as error:
        raise FileDamaged(f"{path} is damaged: {error}") from error


def _whole_marker(segment: Segment, position: Position, view: BatchView) -> BatchView:
    """Returns the whole batch if it is a transaction marker; for all other batches the header suffices."""
    if view.is_control and view.producer_id >= 0 and view.size <= CONTROL_BATCH_BYTES_MAX:
        return read_batch(segment.files, segment.file, position, view.size) or view
    return view
