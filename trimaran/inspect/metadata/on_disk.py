"""A metadata log in the files of a node, ours or Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.source import Base
from trimaran.log.batches.batch import BatchView
from trimaran.log.inspection.reader import list_segments, scan_batches
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.segment import LOG_SUFFIX
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.snapshot_files import parse_snapshot_name
from trimaran.wire.identity import LeaderEpoch, Offset


class Snapshot(NamedTuple):
    """A snapshot on disk, named by the end and the epoch of the records that it holds."""

    end_offset: Offset
    epoch: LeaderEpoch
    path: Path


class MetadataDirectory:
    """The metadata log of a node's directory, its `__cluster_metadata-0`, one segment or one snapshot."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.segments: list[str]
        self.snapshots: list[Snapshot]
        if path.is_file():
            self._of_file(path)
            return
        folder = path / DIRECTORY_NAME if (path / DIRECTORY_NAME).is_dir() else path
        self.segments = (
            [segment.path for segment in list_segments(folder)] if folder.is_dir() else []
        )
        self.snapshots = _snapshots_in(folder) if folder.is_dir() else []
        if not self.segments and not self.snapshots:
            raise UserError(
                f"no metadata log in {path}",
                f"there is no .log and no .checkpoint file in {folder}",
                "name a controller's directory, or a .log or .checkpoint file",
                exit_code=Exit.USAGE,
            )

    def _of_file(self, path: Path) -> None:
        snapshot_id = parse_snapshot_name(path.name)
        is_segment = base_offset_of(path.name, LOG_SUFFIX) is not None
        if snapshot_id is None and not is_segment:
            raise UserError(
                f"no metadata log in {path}",
                "its name is neither that of a segment (00000000000000000000.log) nor of a snapshot (….checkpoint)",
                "name a controller's directory, or such a file under its original name",
                exit_code=Exit.USAGE,
            )
        self.segments = [str(path)] if is_segment else []
        self.snapshots = [Snapshot(*snapshot_id, path)] if snapshot_id else []

    def base(self, upto: Offset | None) -> Base | None:
        """Returns the last snapshot that is not beyond this offset, which may be the bootstrap snapshot at offset 0,
        written by formatting.
        """
        usable = [
            snapshot for snapshot in self.snapshots if upto is None or snapshot.end_offset <= upto
        ]
        return self._first_followed(usable[-1:])

    def begins_after(self) -> Base | None:
        """Returns the oldest snapshot from which the log continues."""
        return self._first_followed(self.snapshots)

    def _first_followed(self, snapshots: list[Snapshot]) -> Base | None:
        """Returns the first snapshot from which the log continues; None if the log is complete. Raises UserError."""
        first = self._first_offset()
        for snapshot in snapshots:
            if snapshot.end_offset >= first:
                return Base(snapshot.end_offset, snapshot.epoch, snapshot.path.read_bytes())
        if first > 0:
            raise UserError(
                f"{self.name} does not reach back that far",
                f"its log begins at offset {first}, and no snapshot on disk is older",
                f"name an offset from {max(first, self._oldest_snapshot())} on",
                exit_code=Exit.USAGE,
            )
        return None

    def _first_offset(self) -> Offset:
        return min((Offset(Path(path).stem) for path in self.segments), default=Offset(0))

    def _oldest_snapshot(self) -> Offset:
        return min((snapshot.end_offset for snapshot in self.snapshots), default=Offset(0))

    def batches(self, start: Offset) -> Iterator[BatchView]:
        """Yields the batches; ends early if a live log ends within a batch."""
        starts = [int(Path(path).stem) for path in self.segments]
        for index, path in enumerate(self.segments):
            if index + 1 < len(starts) and starts[index + 1] <= start:
                continue
            for _, batch in scan_batches(path):
                if batch.next_offset > start:
                    yield batch


def _snapshots_in(folder: Path) -> list[Snapshot]:
    found = [(parse_snapshot_name(path.name), path) for path in sorted(folder.iterdir())]
    return [Snapshot(*snapshot_id, path) for snapshot_id, path in found if snapshot_id]
