"""The metadata log of an observer without a disk: it keeps batches in memory until they are applied.

Used by the ZooKeeper mirror and tools. It holds at most the batches that a leader has not committed yet, which
check-quorum bounds in time (a leader without a majority resigns), and one snapshot while it is fetched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.quorum.raft.types import OffsetAndEpoch, ensure
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.voter_records import note_batch, note_snapshot
from trimaran.wire.identity import LeaderEpoch, Offset


class MemoryLog:
    """Implements `LogView` and the methods that the driver needs of an observer's log."""

    refetch_end: Offset | None = None

    def __init__(self) -> None:
        self.history = QuorumHistory()
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self._batches: deque[BatchView] = deque()
        # (epoch, start offset), ascending: a few bytes for each election
        self._epochs: list[tuple[LeaderEpoch, Offset]] = []
        self._snapshot: OffsetAndEpoch | None = None
        self._part = bytearray()

    # --- LogView

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self._epochs[-1][0] if self._epochs else LeaderEpoch(0)

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshot

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshot

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        at = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        if at == 0:
            return OffsetAndEpoch(self.start_offset, epoch)
        end = self._epochs[at][1] if at < len(self._epochs) else self.end_offset
        return OffsetAndEpoch(end, self._epochs[at - 1][0])

    def snapshot_size(self, _snapshot_id: OffsetAndEpoch) -> int | None:
        return None

    # --- changes

    def append_fetched(self, records: bytes | memoryview) -> None:
        for batch in iter_batches(memoryview(records)):
            ensure(batch.base_offset == self.end_offset, "an observer appends without gaps", batch)
            if not self._epochs or batch.leader_epoch > self._epochs[-1][0]:
                self._epochs.append((batch.leader_epoch, batch.base_offset))
            self._batches.append(batch)
            note_batch(self.history, batch)
            self.end_offset = batch.next_offset

    def truncate_to(self, offset: Offset) -> None:
        while self._batches and self._batches[-1].next_offset > offset:
            self._batches.pop()
        self.end_offset = (
            self._batches[-1].next_offset if self._batches else min(offset, self.end_offset)
        )
        self.history.truncate_to(self.end_offset)
        of_snapshot = 0 if self._snapshot is None else 1
        while len(self._epochs) > of_snapshot and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()

    def write_snapshot_part(self, position: int, data: bytes | memoryview) -> None:
        if position == 0:
            self._part.clear()
        self._part += data

    def snapshot_part(self, _snapshot_id: OffsetAndEpoch, size: int) -> bytearray:
        """Returns the fetched bytes of the snapshot."""
        return self._part[:size]

    def start_at_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replaces the log by the fetched snapshot."""
        note_snapshot(self.history, snapshot_id.offset, memoryview(self._part))
        self._part = bytearray()
        self._batches.clear()
        self._snapshot = snapshot_id
        self.start_offset = self.end_offset = snapshot_id.offset
        self._epochs = [(snapshot_id.epoch, snapshot_id.offset)]

    def forget_applied(self, offset: Offset) -> None:
        """Drops batches below `offset`."""
        while self._batches and self._batches[0].next_offset <= offset:
            self.history.trim_to(self._batches.popleft().last_offset)

    # --- reading

    def batches(self, offset: Offset, upto_offset: Offset) -> Iterator[BatchView]:
        return iter(
            [b for b in self._batches if b.base_offset >= offset and b.next_offset <= upto_offset]
        )
