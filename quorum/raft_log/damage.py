"""Distinguishes the traces of a crash in a metadata log from damage by a bad disk (R15).

The unflushed end of a log may be torn: whole sectors of the last appends were never written. They read as zeros,
because a file system does not show the former contents of the disk. Above the recovery point there are therefore two
cases:

- a batch with a sector of zeros, or one that is cut off by the end of the file, is torn: it was never acknowledged, and
  is removed;
- any other data that is not a whole batch was written completely and changed afterwards: it is damaged, and may have
  been acknowledged.

If the length of a batch is implausible, the next whole batch after it is searched; the CRC covers neither offset,
length nor epoch. All data below the recovery point was flushed, so every incomplete batch there is damaged. Source:
protocol-aware recovery (FAST '18), 3.3.2, which keeps a second record of each append for this; here the zeros suffice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimaran.log.batches.batch import HEADER_BYTES, MAGIC, BatchView, has_valid_crc, header_at
from trimaran.log.directories.directory import CLUSTER_METADATA, LogDirectory
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.log.segments.recovery import crc_is_valid, offsets_of
from trimaran.log.segments.scan import is_plausible, scan_headers
from trimaran.log.segments.segment import LOG_SUFFIX, file_name
from trimaran.quorum import events
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.recovery_point import RecoveryPoint
from trimaran.quorum.raft_log.refetch import SUFFIX, RefetchMark
from trimaran.quorum.raft_log.snapshot_files import parse_snapshot_name, snapshot_name
from trimaran.quorum.raft_log.voter_records import note_batch, note_snapshot
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset

log = logging.getLogger(__name__)

SECTOR_BYTES = 512  # disks write a sector completely or not at all
# The part of a batch in its last sector may consist of zeros: a record ends with the number of its headers.
ZEROS_MIN = 4
_MAGIC_POSITION = 16
_MAGIC = re.compile(bytes([MAGIC]))

# Whether there is a node from which the log can be fetched, according to the voters that can still be read.
CanRefetch = Callable[[QuorumHistory], bool]


class LogDamaged(Exception):
    """The metadata log has lost flushed data, and there is no other voter from which it can be fetched."""


def refuse(directory: Path, offset: Offset, end_offset: Offset, why: object) -> LogDamaged:
    """Returns the error for the only voter."""
    return LogDamaged(
        f"{directory} is damaged at offset {offset} of {end_offset} in what was written ({why}), and no other voter "
        f"has it: nothing was changed. "
        f"Put the directory back from a copy"
    )


def still_damaged(directory: Path, end_offset: Offset) -> LogDamaged:
    """Returns the error for damage that was found and cut off earlier, when there were other voters (or by a version
    that did not check for them).
    """
    mark = directory.with_name(directory.name + SUFFIX)
    return LogDamaged(
        f"{directory} lacks a part of what was written below offset {end_offset} ({mark.name} beside it says so), and "
        f"no other voter has it: nothing was changed. "
        f"Put the directory back from a copy, without {mark.name}"
    )


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage from `position` of the segment `bases[at]` on, after which no data is usable; all records ever
    acknowledged are below `end_offset`.
    """

    bases: Sequence[Offset]
    at: int
    position: int
    offset: Offset
    end_offset: Offset


def find_damage(
    directory: Path, recovery_point: Offset | None, files: Files = REAL_FILES
) -> Damage | None:
    """Returns the first damage that is not a torn end, in the segments that extend beyond `recovery_point` (None:
    everything was flushed). Blocks; raises OSError.
    """
    bases = offsets_of(directory, LOG_SUFFIX, files)
    if not bases:
        return _damage_without_segments(directory, Offset(recovery_point or 0), files)
    behind = [n for n, base in enumerate(bases) if base < (recovery_point or 0)]
    first = 0 if recovery_point is None or not behind else behind[-1]
    flushed = (1 << 63) if recovery_point is None else recovery_point
    offset, epoch = bases[first], NO_LEADER_EPOCH
    for at in range(first, len(bases)):
        if bases[at] != offset:
            # Above the recovery point a gap between segments is a torn end of the earlier one.
            return (
                None
                if offset >= flushed
                else _damage(directory, bases, at, 0, offset, flushed, files)
            )
        file = files.open(_path(directory, bases[at]), write=False)
        size, position = files.size(file), 0
        for found, view in scan_headers(files, file, 0, size):
            fits = view.base_offset == offset and view.leader_epoch >= epoch
            is_checked = view.next_offset > flushed
            if not fits or (is_checked and not crc_is_valid(files, file, found, view)):
                break
            position, offset, epoch = found + view.size, view.next_offset, view.leader_epoch
        if position < size:
            rest = files.pread(file, size - position, position)
            is_torn = offset >= flushed and _is_torn(rest, position, offset, epoch)
            return (
                None if is_torn else _damage(directory, bases, at, position, offset, flushed, files)
            )
    if recovery_point is not None and offset < recovery_point:
        end = files.status(_path(directory, bases[-1])).size
        return _damage(directory, bases, len(bases) - 1, end, offset, flushed, files)
    return None


def _damage_without_segments(
    directory: Path, recovery_point: Offset, files: Files
) -> Damage | None:
    """Handles a log without segments: all flushed data must then be in the newest snapshot."""
    latest = _newest_snapshot(directory, files)
    covered = 0 if latest is None else latest.offset
    return None if covered >= recovery_point else Damage((), 0, 0, Offset(0), recovery_point)


def _newest_snapshot(directory: Path, files: Files) -> OffsetAndEpoch | None:
    ids = (parse_snapshot_name(name) for name in files.list_directory(directory))
    return max((id_ for id_ in ids if id_ is not None), default=None)


def has_segments(directory: Path, files: Files = REAL_FILES) -> bool:
    """Returns whether there are segments; there are none if the log is empty after a snapshot."""
    return bool(offsets_of(directory, LOG_SUFFIX, files))


def _path(directory: Path, base: Offset) -> Path:
    return directory / file_name(base, LOG_SUFFIX)


def _damage(
    directory: Path,
    bases: Sequence[Offset],
    at: int,
    position: int,
    offset: Offset,
    flushed: int,
    files: Files,
) -> Damage:
    """Returns the damage. The damaged batch counts as one offset: a high watermark above that is at or beyond the
    batch's end.
    """
    end_offset = max(offset + 1, flushed if flushed < 1 << 63 else 0)
    for number in range(at, len(bases)):
        start = position if number == at else 0
        for _, view in _whole_batches(_read(_path(directory, bases[number]), start, files), offset):
            end_offset = max(end_offset, view.next_offset)
    return Damage(bases, at, position, offset, Offset(end_offset))


def _read(path: Path, start: int, files: Files) -> bytes:
    """Reads the rest of a file; only damaged segments are read in this way, and a metadata log is a few mebibytes."""
    return files.read_bytes(path)[start:]


def _is_torn(rest: bytes, position: int, offset: Offset, epoch: LeaderEpoch) -> bool:
    """Returns whether a crash alone can explain `rest`, the data at `position` of the file that is not a whole batch at
    `offset`.
    """
    view = header_at(rest, 0)
    size = None
    if view is not None and is_plausible(view) and view.size <= len(rest):
        size = view.size
        if view.leader_epoch < epoch and _is_whole(rest, view):
            # The log was truncated, and the truncation did not reach the disk: no batch here is newer than those
            # before.
            return not any(b.leader_epoch >= epoch for _, b in _whole_batches(rest, offset))
        behind = size
    else:
        behind = next((at for at, _ in _whole_batches(rest, offset)), len(rest))
    if _has_unwritten_sector(rest[:behind], position):
        return True
    if size is not None or behind < len(rest):
        return False
    # All fields except its length may be valid.
    return view is None or not _is_whole(rest, view)


def _is_whole(data: bytes, view: BatchView) -> bool:
    """Returns whether the batch has a valid CRC, computed over all of `data` if its length exceeds that."""
    size = view.size if HEADER_BYTES <= view.size <= len(data) else len(data)
    return has_valid_crc(BatchView(memoryview(data)[:size], 0))


def _has_unwritten_sector(data: bytes, position: int) -> bool:
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
        part = data[start:end]
        if len(part) >= ZEROS_MIN and not any(part):
            return True
        start = end
    return False


def _whole_batches(data: bytes, offset: Offset) -> Iterator[tuple[int, BatchView]]:
    """Yields (position, batch) of the whole batches in `data` at `offset` or above, in order, and skips all bytes
    between them.
    """
    view = memoryview(data)
    at = 0
    while at < len(data):
        batch = _whole_batch(view, at, offset)
        if batch is None:
            found = _MAGIC.search(data, at + 1 + _MAGIC_POSITION)
            if found is None:
                return
            at = found.start() - _MAGIC_POSITION
            continue
        yield at, batch
        at, offset = at + batch.size, batch.next_offset


def _whole_batch(data: memoryview, at: int, offset: Offset) -> BatchView | None:
    if len(data) - at < HEADER_BYTES:
        return None
    # A cheap test that rarely succeeds by chance: an offset differs only in its low bytes.
    base = int.from_bytes(data[at : at + 8], "big")
    if not offset <= base <= offset + len(data):
        return None
    header = BatchView(data, at)
    if header.magic != MAGIC or not is_plausible(header) or header.size > len(data) - at:
        return None
    batch = BatchView(data[at : at + header.size], 0)
    return batch if has_valid_crc(batch) else None


def readable_history(directory: Path, files: Files = REAL_FILES) -> QuorumHistory:
    """Returns the quorum according to the whole batches of the newest snapshot and the log, including those after
    damage; it must not be used for voting. Blocks.
    """
    history = QuorumHistory()
    latest = _newest_snapshot(directory, files)
    try:
        offset = 0
        if latest is not None:
            data = read_small_file(directory / snapshot_name(latest), files) or b""
            whole = b"".join(bytes(batch.buffer) for _, batch in _whole_batches(data, Offset(0)))
            note_snapshot(history, latest.offset, whole)
            offset = latest.offset
        for base in offsets_of(directory, LOG_SUFFIX, files):
            for _, batch in _whole_batches(_read(_path(directory, base), 0, files), base):
                if batch.base_offset >= offset:
                    note_batch(history, batch)
                    offset = batch.next_offset
    except (FileDamaged, RemoteProtocolError, KafkaError) as error:
        log.debug("%s can be read up to here: %s", directory, error)
    return history


def mend(
    directory: LogDirectory,
    path: Path,
    point: RecoveryPoint,
    can_refetch: CanRefetch,
    recovery_point: Offset | None,
    files: Files = REAL_FILES,
) -> bool:
    """Cuts the metadata log at the damage, after recording how far it must be fetched again. Blocks.

    Returns:
        Whether there was damage. The function can be repeated after a crash.

    Raises:
        LogDamaged: there is no node to fetch from; the log was not changed.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    with directory.health.guard(f"looking through {path}"):
        damage = find_damage(path, recovery_point, files)
        if damage is None:
            return False
        has_file = bool(damage.bases)
        name = file_name(damage.bases[damage.at] if has_file else Offset(0), LOG_SUFFIX)
        where = f"position {damage.position} of {name}"
        if not can_refetch(readable_history(path, files)):
            raise refuse(path, damage.offset, damage.end_offset, where)
        events.METADATA_DAMAGED.log(
            log, directory=path, offset=damage.offset, end_offset=damage.end_offset, error=where
        )
        RefetchMark(path, files).set(damage.end_offset)
        point.lower(damage.offset)
        directory.offsets.lower_recovery_point(CLUSTER_METADATA, damage.offset)
        for base in reversed(damage.bases[damage.at + 1 :]):
            files.unlink(_path(path, base))
        if has_file:
            file = files.open(_path(path, damage.bases[damage.at]))
            files.truncate(file, damage.position)
            files.fdatasync(file)
        files.fsync_directory(path)
    return True
