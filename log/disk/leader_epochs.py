"""The start and end offsets of leader epochs in a log (KIP-101, KIP-279).

Source: Kafka's `LeaderEpochFileCache`. Entries ascend in both epoch and start offset. The log's flush writes the file
before the flushed offset advances, so entries of flushed batches are never lost; recovery restores later ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path

from trimaran.log.disk.checkpoints import (
    LEADER_EPOCHS,
    CheckpointDamaged,
    format_checkpoint,
    parse_checkpoint,
)
from trimaran.log.disk.files import Files
from trimaran.log.disk.small_file import read_small_file
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset


class LeaderEpochs:
    """The entries of one log; `version` counts changes, so that a flush can identify the state that it saved."""

    __slots__ = ("_epochs", "_starts", "latest_epoch", "version")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        self.latest_epoch = NO_LEADER_EPOCH
        self.version = 0
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.version = 0

    @classmethod
    def parse(cls, path: Path, text: bytes) -> LeaderEpochs:
        """Parses a checkpoint file; raises CheckpointDamaged, also if the entries do not ascend."""
        try:
            lines = parse_checkpoint(path, text)
            entries = [(LeaderEpoch(int(epoch)), Offset(int(start))) for epoch, start in lines]
        except ValueError as error:
            raise CheckpointDamaged(f"{path}: {error}") from None
        for before, after in zip([(NO_LEADER_EPOCH, NO_OFFSET), *entries], entries, strict=False):
            if not (before[0] < after[0] and before[1] < after[1]):
                raise CheckpointDamaged(f"{path}: {after} after {before}")
        return cls(entries)

    @classmethod
    def read(cls, directory: Path, files: Files) -> LeaderEpochs | None:
        """Reads the epochs of a partition's directory; None if there is no file, or an empty one: Kafka creates it so,
        and fills it with the first epoch.

        Raises:
            FileDamaged: the file is damaged or cannot be read. The batches of the log contain the same information.
            OSError: the disk failed.
        """
        path = directory / LEADER_EPOCHS
        text = read_small_file(path, files)
        return cls.parse(path, text) if text else None

    def format(self) -> bytes:
        return format_checkpoint(f"{epoch} {start}" for epoch, start in self.entries())

    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """Returns (epoch, start offset) pairs, ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Records that `epoch` begins at `start_offset`; removes entries that contradict it."""
        if epoch < 0:
            return
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest_epoch = epoch
        self.version += 1

    def end_offset_for(
        self, epoch: LeaderEpoch, log_end_offset: Offset
    ) -> tuple[LeaderEpoch, Offset]:
        """Returns the largest known epoch not above `epoch` and its end offset; (-1, -1) if none is known.

        For an epoch below the first known one, returns (`epoch`, the first known start), so that a follower begins at
        our start.
        """
        if epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return NO_LEADER_EPOCH, NO_OFFSET
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """Returns the epoch that wrote `offset`; -1 below all entries."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Removes epochs that began at `end_offset` or later."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest_epoch = self._epochs[-1] if keep else NO_LEADER_EPOCH
            self.version += 1

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Removes epochs that ended before `start_offset`; the epoch that contains it now begins there."""
        at = bisect_right(self._starts, start_offset)
        if at and self._starts[at - 1] != start_offset:
            self._starts[at - 1] = start_offset
            del self._epochs[: at - 1], self._starts[: at - 1]
            self.version += 1
        elif at > 1:
            del self._epochs[: at - 1], self._starts[: at - 1]
            self.version += 1

    def clear(self) -> None:
        self.truncate_from_end(Offset(0))
