"""Which leader epoch began at which offset of a log, and where each ended (KIP-101, KIP-279).

Source: Kafka's `LeaderEpochFileCache`. Entries ascend in both epoch and start offset. The file is written by the log's
flush, before the flushed offset moves, so entries of flushed batches are never lost; later ones are found by recovery.
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
    """The entries of one log; `version` counts changes so that a flush knows what it saved."""

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
        """Reads a checkpoint file; raises CheckpointDamaged, also when the entries do not ascend."""
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
        """Those of a partition's directory; None where there is no file.

        Raises:
            FileDamaged: the file is damaged or cannot be read. The batches of the log say the same.
            OSError: the disk failed.
        """
        path = directory / LEADER_EPOCHS
        text = read_small_file(path, files)
        return None if text is None else cls.parse(path, text)

    def format(self) -> bytes:
        return format_checkpoint(f"{epoch} {start}" for epoch, start in self.entries())

    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Says that `epoch` begins at `start_offset`; entries that contradict it go."""
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
        """The largest known epoch not above `epoch` and where it ended; (-1, -1) when nothing is known.

        Below the first known epoch: (`epoch`, the first known start), so that a follower begins at our start.
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
        """The epoch that wrote `offset`; -1 below all entries."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Forgets epochs that began at `end_offset` or later."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest_epoch = self._epochs[-1] if keep else NO_LEADER_EPOCH
            self.version += 1

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Forgets what ended before `start_offset`; the epoch that reaches over it begins there now."""
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
