"""The producers of one log, their snapshots and the index of their aborted transactions, while the log grows and is
truncated.

Source: Kafka's `ProducerStateManager`. `log/producers/state.py` checks batches; `log/producers/snapshots.py` defines
the format of snapshots, and restores the state from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trimaran.log.disk.files import Files
from trimaran.log.producers.snapshots import (
    SnapshotInPieces,
    load_producers,
    remove_snapshots,
    write_snapshot,
    write_snapshot_in_pieces,
)
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.segment import SNAPSHOT_SUFFIX, Segment, file_name
from trimaran.log.segments.segments import Segments
from trimaran.log.steps import Steps
from trimaran.wire.identity import NO_OFFSET, Offset

# A snapshot of up to AT_ONCE_MAX producers is created in one step of 5 ms; a snapshot of more producers is created in
# pieces: each append adds a PIECE in 2 ms.
AT_ONCE_MAX, PIECE = 5_000, 2_000


class ProducerStateManager:
    """The manager. `state` is the state at the end of the log; None until it is loaded, and after a truncation.
    `unfinished` is a snapshot in progress. Methods raise OSError.
    """

    # Slots save memory, because each open log has a manager.
    __slots__ = ("_directory", "_files", "_segments", "state", "unfinished")

    def __init__(self, directory: Path, segments: Segments, files: Files) -> None:
        self.state: ProducerState | None = None
        self._directory = directory
        self._segments = segments
        self._files = files
        self.unfinished: SnapshotInPieces | None = None

    def load(self, start_offset: Offset, end_offset: Offset) -> Steps[ProducerState]:
        """Builds the state from the newest snapshot and the headers after it, for a log with these offsets. A state
        built by another caller between two steps is kept, because it may have advanced.
        """
        state = yield from load_producers(
            self._directory,
            tuple(self._segments.all),
            self._files,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        if self.state is None:
            self.state = state
        return self.state

    def take_snapshot(self, *, durable: bool = False) -> None:
        """Writes a snapshot if the state is loaded: a state that was never used has its snapshot, or is rebuilt from
        the headers.
        """
        if self.state is not None:
            write_snapshot(self._directory, self.state, self._files, durable=durable)

    def begin_snapshot(self) -> None:
        """Begins a snapshot as `take_snapshot` does, without blocking the loop: `go_on` continues a snapshot of many
        producers, which is dropped if the log is closed or truncated first. Only one snapshot is in progress at a time.
        """
        if self.state is None or len(self.state) <= AT_ONCE_MAX:
            self.take_snapshot()
        elif self.unfinished is None:
            self.unfinished = SnapshotInPieces(self.state)
            self.state.before_change = self.unfinished.note

    def go_on(self) -> None:
        """Creates the next piece of the snapshot in progress."""
        unfinished, state = self.unfinished, self.state
        if unfinished is None or state is None:
            return
        unfinished.go_on(PIECE)
        if unfinished.is_complete:
            self.unfinished = state.before_change = None
            write_snapshot_in_pieces(self._directory, unfinished, self._files)

    def forget(self) -> None:
        """Drops the state; the next `load` rebuilds it."""
        self.state = self.unfinished = None

    def truncate(self, end_offset: Offset) -> None:
        """Notes that the log now ends at `end_offset`."""
        self.forget()
        remove_snapshots(self._directory, self._files, above=end_offset)

    def drop_damaged(self) -> None:
        """Truncates damaged transaction indexes to their valid part; the next `load` reads all headers and adds the
        lost entries.
        """
        for segment in self._segments.all:
            segment.transaction_index.keep_sound()
        self.truncate(NO_OFFSET)

    def remove_snapshots_below(self, offset: Offset) -> None:
        """Removes snapshots below `offset`, the new start of the first segment."""
        remove_snapshots(self._directory, self._files, below=offset)

    def remove_snapshots_of(self, segments: Iterable[Segment]) -> None:
        """Removes the snapshots of segments that were merged into another one."""
        for segment in segments:
            self._files.unlink(self._directory / file_name(segment.base_offset, SNAPSHOT_SUFFIX))

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers idle for `expiration_ms`, if the state is loaded; returns the number of producers
        before.
        """
        if self.state is None:
            return 0
        known = len(self.state)
        self.state.remove_expired(now_ms, expiration_ms)
        return known
