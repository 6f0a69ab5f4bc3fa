"""The `.checkpoint` files beside the metadata log: names, atomic writing, reading by position, deletion.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint          complete and durable
    <the same>-….checkpoint.part                                   being written; removed at start
    <the same>.checkpoint.deleted                                  being removed
    <the same>.checkpoint.damaged                                  found damaged; kept for inspection

Source: KIP-630, Kafka's `Snapshots` and `FileRawSnapshotWriter`.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left, insort
from collections.abc import Iterable
from pathlib import Path

from trimaran.log.disk.atomic_file import DAMAGED_SUFFIX
from trimaran.log.disk.files import REAL_FILES, Files, is_of_name
from trimaran.quorum import events
from trimaran.quorum.raft.types import OffsetAndEpoch, ensure
from trimaran.wire.identity import LeaderEpoch, Offset

log = logging.getLogger(__name__)

SUFFIX = ".checkpoint"
READ_BYTES = 1 << 20
_NAME = re.compile(r"(\d{20})-(\d{10})(-[^.]*)?\.checkpoint(\.part|\.deleted)?$")


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """Returns the id of a complete snapshot from its file name; None for any other file, including one that is being
    written or removed.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[3] or match[4]:
        return None
    return OffsetAndEpoch(Offset(int(match[1])), LeaderEpoch(int(match[2])))


class SnapshotFiles:
    """The complete snapshots of one directory, ascending. Methods block unless noted, and raise OSError."""

    def __init__(self, directory: Path, files: Files = REAL_FILES) -> None:
        self._directory = directory
        self._files = files
        self.ids: list[OffsetAndEpoch] = []
        self._sizes: dict[OffsetAndEpoch, int] = {}

    def open(self, log_start_offset: Offset) -> None:
        """Finds the snapshots; removes partial ones and those before the start of the log."""
        for name in self._files.list_directory(self._directory):
            if _NAME.fullmatch(name) is None:
                continue
            snapshot_id = parse_snapshot_name(name)
            if snapshot_id is None or snapshot_id.offset < log_start_offset:
                self._files.unlink(self._directory / name)
            else:
                self._add_if_readable(snapshot_id)

    def _add_if_readable(self, snapshot_id: OffsetAndEpoch) -> None:
        try:
            self._add(snapshot_id)
        except OSError as error:
            if not is_of_name(error):
                raise
            self._sizes[snapshot_id] = 0
            self.drop(snapshot_id, error)

    def _add(self, snapshot_id: OffsetAndEpoch) -> None:
        if snapshot_id not in self._sizes:
            insort(self.ids, snapshot_id)
        file = self._files.open(self.path(snapshot_id), write=False)
        self._sizes[snapshot_id] = self._files.size(file)

    def path(self, snapshot_id: OffsetAndEpoch) -> Path:
        return self._directory / snapshot_name(snapshot_id)

    def size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Returns the size in bytes; None if there is no such snapshot. Does not block."""
        return self._sizes.get(snapshot_id)

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        file = self._files.open(self.path(snapshot_id), write=False)
        return self._files.pread(file, max_bytes, position)

    def read_all(self, snapshot_id: OffsetAndEpoch) -> bytes:
        return self._files.read_bytes(self.path(snapshot_id))

    def write(self, snapshot_id: OffsetAndEpoch, batches: Iterable[bytes]) -> None:
        """Writes a whole snapshot durably; call `added` on the loop afterwards."""
        position = 0
        for batch in batches:
            self.write_part(snapshot_id, position, batch)
            position += len(batch)
        self.finish_part(snapshot_id)

    def write_part(
        self, snapshot_id: OffsetAndEpoch, position: int, data: bytes | memoryview
    ) -> None:
        """Adds a piece to an unfinished snapshot; position 0 starts it again."""
        file = self._files.open(self._part(snapshot_id), create=True)
        if position == 0:
            self._files.truncate(file, 0)
        ensure(
            self._files.size(file) == position,
            "a snapshot grows without gaps",
            snapshot_id,
            position,
        )
        self._files.pwrite(file, data, position)

    def read_part(self, snapshot_id: OffsetAndEpoch, size: int) -> bytearray:
        """Returns the first `size` bytes of an unfinished snapshot in a buffer that the caller may extend."""
        part = bytearray()
        if size:
            file = self._files.open(self._part(snapshot_id), write=False)
            for position in range(0, size, READ_BYTES):
                part += self._files.pread(file, min(READ_BYTES, size - position), position)
        return part

    def finish_part(self, snapshot_id: OffsetAndEpoch) -> None:
        """Makes the snapshot durable under its final name."""
        part = self._part(snapshot_id)
        self._files.fdatasync(self._files.open(part))
        self._files.rename(part, self.path(snapshot_id))
        self._files.fsync_directory(self._directory)

    def added(self, snapshot_id: OffsetAndEpoch) -> None:
        """Makes a finished snapshot visible to readers."""
        self._add(snapshot_id)

    def _part(self, snapshot_id: OffsetAndEpoch) -> Path:
        return self._directory / f"{snapshot_name(snapshot_id)}.part"

    def forget_before(self, snapshot_id: OffsetAndEpoch) -> list[Path]:
        """Hides older snapshots from readers and renames them; the caller unlinks the returned files."""
        keep = bisect_left(self.ids, snapshot_id)
        gone = []
        for old in self.ids[:keep]:
            deleted = self._directory / f"{snapshot_name(old)}.deleted"
            self._files.rename(self.path(old), deleted)
            del self._sizes[old]
            gone.append(deleted)
        del self.ids[:keep]
        return gone

    def drop(self, snapshot_id: OffsetAndEpoch, damage: Exception) -> None:
        """Removes a damaged snapshot from the list and renames its file, which is kept for inspection."""
        self.ids.remove(snapshot_id)
        del self._sizes[snapshot_id]
        path = self.path(snapshot_id)
        aside = path.with_name(path.name + DAMAGED_SUFFIX)
        self._files.rename(path, aside)
        events.SNAPSHOT_DROPPED.log(log, file=aside, error=damage)

    def unlink(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._files.unlink(path)
