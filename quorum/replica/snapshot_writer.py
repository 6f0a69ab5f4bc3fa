"""Writes metadata snapshots when enough records have been applied, and removes the log and snapshots that they replace.

Source: KIP-630, Kafka's `SnapshotGenerator` and `KafkaRaftLog.maybeClean`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum import events
from trimaran.quorum.raft.types import OffsetAndEpoch, ensure
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.snapshot_files import READ_BYTES, SnapshotFiles
from trimaran.quorum.raft_log.snapshot_format import appended_at_ms, encode_snapshot
from trimaran.quorum.replica.appliers import Applier
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

# The interval of checks whether a snapshot is due, and the delay of the first check, because a starting node has more
# important work.
LOOK_SECONDS = 1.0
FIRST_LOOK_SECONDS = 5.0
# The minimum size of the log for a snapshot: a start reads a smaller log in a fraction of a second.
BYTES_MIN = 1 << 20
# The bytes of log for each byte of snapshot. A snapshot costs about as much as applying the same number of bytes of
# log, so at most a third of the work is spent on snapshots.
LOG_BYTES_PER_SNAPSHOT_BYTE = 2


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """The policy for writing and removing snapshots: `metadata.log.max.record.bytes.between.snapshots` (the maximum;
    see `bytes_due`), `metadata.log.max.snapshot.interval.ms` (in seconds; 0: never by time),
    `metadata.max.retention.bytes` and `.ms` (negative: unlimited); Kafka's defaults.
    """

    bytes_between: int = 20 << 20
    seconds_between: float = 3600.0
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000

    def bytes_due(self, snapshot_bytes: int) -> int:
        """Returns the bytes of log after a snapshot of that size (0: none) at which the next snapshot is due.

        A start reads the newest snapshot and the log after it. The log is limited to a multiple of the state's size:
        twenty mebibytes of leader changes are half a million records, for perhaps a thousand partitions.
        """
        return min(self.bytes_between, max(BYTES_MIN, LOG_BYTES_PER_SNAPSHOT_BYTE * snapshot_bytes))


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """All state below `end_offset`, which is the end of a batch; `records` may be consumed in a thread."""

    end_offset: Offset
    epoch: LeaderEpoch
    appended_at_ms: int
    records: Iterable[Message]
    metadata_version: int


class Snapshotter:
    """Writes snapshots. The owner of the image sets `source`, which is called on the loop when a snapshot is due; it
    returns None to postpone the snapshot.
    """

    def __init__(
        self, metadata_log: MetadataLog | MemoryLog, policy: SnapshotPolicy, applier: Applier
    ) -> None:
        self.source: Callable[[], SnapshotContent | None] | None = None
        self._log = metadata_log
        self._policy = policy
        self._applier = applier

    async def run(self) -> None:
        """Writes snapshots according to the policy; returns immediately for a log in memory."""
        if not isinstance(self._log, MetadataLog):
            return
        last = trio.current_time()
        pause = FIRST_LOOK_SECONDS
        while True:
            await trio.sleep(pause)
            pause = LOOK_SECONDS
            if self.source is not None and self._is_due(self._log, trio.current_time() - last):
                content = self.source()
                if content is not None:
                    await self.write(content)
                    last = trio.current_time()

    def _is_due(self, metadata_log: MetadataLog, seconds: float) -> bool:
        latest = metadata_log.latest_snapshot
        if self._applier.applied.offset <= (latest.offset if latest else 0):
            return False
        by_time = 0 < self._policy.seconds_between <= seconds
        size = (metadata_log.snapshots.size(latest) or 0) if latest else 0
        return by_time or self._applier.bytes_applied >= self._policy.bytes_due(size)

    async def write(self, content: SnapshotContent) -> None:
        """Writes a snapshot and cleans the log before it. Its end is at most the applied offset (R9), hence
        committed.
        """
        assert isinstance(self._log, MetadataLog)
        snapshot_id = OffsetAndEpoch(content.end_offset, content.epoch)
        if (
            content.end_offset > self._applier.applied.offset
            or content.end_offset <= self._log.start_offset
        ):
            raise ValueError(f"no snapshot at {content.end_offset}")
        if self._log.snapshot_size(snapshot_id) is not None:
            return
        following = next(self._log.batches(content.end_offset, self._log.end_offset), None)
        at_boundary = following is None or following.base_offset == content.end_offset
        ensure(at_boundary, "R9 a snapshot ends where a batch does", snapshot_id)
        self._applier.bytes_applied = 0
        files = self._log.snapshots
        batches = _encode(snapshot_id, content, self._log.history, now_ms())
        await run_blocking(files.write, snapshot_id, batches)
        if content.end_offset < self._log.start_offset:  # a newer snapshot was fetched
            await run_blocking(files.unlink, [files.path(snapshot_id)])
            return
        files.added(snapshot_id)
        size = files.size(snapshot_id)
        events.SNAPSHOT_WRITTEN.log(log, snapshot=snapshot_id, bytes=size)
        await self.clean()

    async def clean(self) -> None:
        """Removes the oldest snapshot and the log before the next one while the retained size is too large or the
        snapshot too old.
        """
        assert isinstance(self._log, MetadataLog)
        files = self._log.snapshots
        while len(files.ids) > 1:
            oldest = files.ids[0]
            is_too_much = 0 <= self._policy.retention_bytes < self._total_bytes(self._log)
            if not is_too_much and not await self._is_too_old(files, oldest):
                break
            # Otherwise a snapshot was fetched meanwhile and has replaced all others.
            if oldest in files.ids:
                gone = self._log.clean_before(files.ids[1], now_ms())
                await run_blocking(files.unlink, gone)
        await run_blocking(self._log.log.purge)

    async def _is_too_old(self, files: SnapshotFiles, snapshot_id: OffsetAndEpoch) -> bool:
        if self._policy.retention_ms < 0:
            return False
        try:
            head = await run_blocking(files.read, snapshot_id, 0, READ_BYTES)
        except FileNotFoundError:
            if snapshot_id in files.ids:
                raise
            return True
        return now_ms() - appended_at_ms(snapshot_id, head) > self._policy.retention_ms

    @staticmethod
    def _total_bytes(metadata_log: MetadataLog) -> int:
        files = metadata_log.snapshots
        return metadata_log.log.size_bytes + sum(files.size(id_) or 0 for id_ in files.ids)


def _encode(
    snapshot_id: OffsetAndEpoch, content: SnapshotContent, history: QuorumHistory, timestamp_ms: int
) -> Iterator[bytes]:
    version = content.metadata_version
    values = (
        encode_metadata_record(record, metadata_record_version(type(record), version))
        for record in content.records
    )
    last = snapshot_id.offset - 1
    return encode_snapshot(
        snapshot_id,
        values,
        appended_at_ms=content.appended_at_ms,
        now_ms=timestamp_ms,
        kraft_version=history.kraft_version_at(last),
        voters=history.voters_at(last),
    )
