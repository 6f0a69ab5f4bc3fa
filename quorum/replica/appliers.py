"""Passes committed batches and snapshots to the listener, in order and in small pieces.

A snapshot that replaces the log is passed instead of the batches in it. There is one listener;
`trimaran.quorum.metadata.loader` distributes changes to several publishers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimaran.log.batches.batch import BatchView
from trimaran.node.runtime.long_lived import LongLived
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.raft.listener import CommittedBatch, MetadataListener
from trimaran.quorum.raft.types import ensure
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.record_batches import in_pieces, metadata_records
from trimaran.quorum.raft_log.snapshot_format import CheckedSnapshot
from trimaran.quorum.raft_log.supported_levels import refuse_unknown
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

# The records passed to the listener between two checkpoints: about 10 ms of work.
RECORDS_AT_ONCE = 500


class Applier:
    """Applies committed records. `applied` follows the high watermark; `bytes_applied` counts the bytes since the last
    snapshot.
    """

    def __init__(
        self,
        metadata_log: MetadataLog | MemoryLog,
        listener: MetadataListener,
        high_watermark: Watermark,
    ) -> None:
        self.applied = Watermark()
        self.bytes_applied = 0
        self.last_epoch = 0
        self.last_appended_at_ms = 0
        self._log = metadata_log
        self._listener = listener
        self._high_watermark = high_watermark
        self._snapshot: CheckedSnapshot | None = None
        self._long_lived = LongLived()
        # base offset → (epoch, records) of our own proposals, which need not be decoded again; bounded by the
        # uncommitted proposals
        self._proposed: dict[Offset, tuple[LeaderEpoch, Sequence[Message]]] = {}
        # a high watermark that was found inside a batch
        self._cut_at = NO_OFFSET
        self._under_way: Iterator[None] | None = None
        self._awake = AutoResetEvent()

    async def open(self) -> None:
        """Passes the newest snapshot on disk to the listener: it is committed under any leader."""
        if isinstance(self._log, MetadataLog):
            loaded = await run_blocking(self._log.load_latest_snapshot)
            if loaded is not None:
                for _ in self._load(loaded):
                    await yield_to_loop()

    def wake(self) -> None:
        """Handles a new high watermark. New records are applied when this returns, unless they take more than
        one turn.
        """
        if self._under_way is None:
            self._under_way = self._catch_up()
            self._apply_step()

    def wake_later(self) -> None:
        """Handles a new high watermark in a later turn, for a caller with more urgent work in this one."""
        if self._under_way is None:
            self._under_way = self._catch_up()
            self._awake.set()

    def replace(self, snapshot: CheckedSnapshot) -> None:
        """Restarts from this snapshot."""
        self._snapshot = snapshot
        self.wake()

    def proposed(self, base_offset: Offset, epoch: LeaderEpoch, records: Sequence[Message]) -> None:
        self._proposed[base_offset] = (epoch, records)

    def forget_proposed(self) -> None:
        self._proposed.clear()

    async def run(self) -> None:
        """Continues the work that exceeded one turn, until cancelled."""
        while True:
            await self._awake.wait()
            while self._under_way is not None:
                await yield_to_loop()
                self._apply_step()

    def _apply_step(self) -> None:
        assert self._under_way is not None
        for _ in self._under_way:
            self._awake.set()
            return
        self._under_way = None

    def _catch_up(self) -> Iterator[None]:
        """Applies all records up to the high watermark; yields when other tasks should get a turn."""
        while self._is_behind:
            if self._snapshot is not None:
                snapshot, self._snapshot = self._snapshot, None
                yield from self._load(snapshot)
                continue
            yield from self._apply_some()
            if self._is_behind:
                yield

    @property
    def _is_behind(self) -> bool:
        committed = self._high_watermark.offset
        return self._snapshot is not None or (
            self.applied.offset < committed and committed != self._cut_at
        )

    def _apply_some(self) -> Iterator[None]:
        records = 0
        for batch in self._log.batches(self.applied.offset, self._high_watermark.offset):
            yield from self._apply(batch)
            records += batch.count
            if records >= RECORDS_AT_ONCE or self._snapshot is not None:
                break
        if records == 0:
            self._wait_for_more()
        self._log.forget_applied(self.applied.offset)

    def _wait_for_more(self) -> None:
        """Waits for the next high watermark: one inside a batch was not set by a leader, which commits whole batches.
        All whole batches below it are applied.
        """
        committed = self._high_watermark.offset
        cut = next(self._log.batches(self.applied.offset, self._log.end_offset), None)
        ensure(
            cut is not None and cut.base_offset < committed < cut.next_offset,
            "R8 what is committed is in the log",
            self.applied.offset,
        )
        self._cut_at = committed

    def _apply(self, batch: BatchView) -> Iterator[None]:
        ensure(batch.base_offset == self.applied.offset, "committed offsets have no gaps", batch)
        epoch, proposed = self._proposed.pop(batch.base_offset, (NO_LEADER_EPOCH, ()))
        records = proposed if epoch == batch.leader_epoch else metadata_records(batch)
        offset = batch.base_offset
        for piece, ends in in_pieces(records, RECORDS_AT_ONCE):
            self._refuse_unknown(piece)
            last_offset = batch.last_offset if ends else offset + len(piece) - 1
            self._listener.apply_committed(
                CommittedBatch(
                    base_offset=offset,
                    last_offset=last_offset,
                    epoch=batch.leader_epoch,
                    appended_at_ms=batch.max_timestamp,
                    size_bytes=batch.size if ends else 0,
                    records=piece,
                    ends=ends,
                )
            )
            offset = last_offset + 1
            self._long_lived.add(len(piece))
            if not ends:
                yield
        self.bytes_applied += batch.size
        self.last_epoch, self.last_appended_at_ms = batch.leader_epoch, batch.max_timestamp
        self.applied.advance(batch.next_offset)

    def _refuse_unknown(self, records: Sequence[Message | UnknownRecord]) -> None:
        """Refuses unknown records on a node that keeps a log, because it takes part in the cluster; an observer without
        a log continues.

        Raises:
            MetadataTooNew: there is a record of a later Kafka version.
        """
        if isinstance(self._log, MetadataLog):
            for record in records:
                if isinstance(record, UnknownRecord):
                    raise refuse_unknown(record, self._log.log.directory)

    def _load(self, snapshot: CheckedSnapshot) -> Iterator[None]:
        ensure(
            snapshot.id.offset >= self.applied.offset,
            "R9 a snapshot takes nothing back",
            snapshot.id,
        )
        for piece in snapshot.pieces(RECORDS_AT_ONCE):
            self._refuse_unknown(piece.records)
            self._listener.load_snapshot(piece)
            self._long_lived.add(len(piece.records))
            yield
        self.bytes_applied = 0
        self.last_epoch, self.last_appended_at_ms = snapshot.id.epoch, snapshot.appended_at_ms
        self.applied.advance(snapshot.id.offset)
