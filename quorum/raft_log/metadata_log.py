"""The metadata log on disk: a `PartitionLog` and its snapshots as one `LogView`, with the driver's changes to it.

Source: Kafka's `KafkaRaftLog`. Time does not trigger cleaning: the driver cleans after it has written a snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView, check_batch, iter_batches
from trimaran.log.batches.columns import check_records
from trimaran.log.batches.control_records import read_control_records
from trimaran.log.batches.records import records_bytes
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import CLUSTER_METADATA, LogDirectory
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.quorum import events
from trimaran.quorum.raft.ready import ControlBatch, LeaderAppend, Proposal
from trimaran.quorum.raft.types import OffsetAndEpoch, ensure
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.damage import (
    CanRefetch,
    has_segments,
    mend,
    readable_history,
    refuse,
    still_damaged,
)
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.recovery_point import RecoveryPoint
from trimaran.quorum.raft_log.refetch import RefetchMark
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles
from trimaran.quorum.raft_log.snapshot_format import (
    CheckedSnapshot,
    SnapshotDamaged,
    check_snapshot,
)
from trimaran.quorum.raft_log.supported_levels import check_levels
from trimaran.quorum.raft_log.voter_records import encode_control_batch, note_batch, note_snapshot
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset

log = logging.getLogger(__name__)

# The bytes that one read of the log brings into memory: a few batches of the largest size that we propose.
READ_BYTES = 1 << 20


class _Newest(NamedTuple):
    """The batches of the last append: every replica fetches them, and the applier reads them next."""

    base_offset: Offset
    end_offset: Offset
    data: memoryview

    def answers(self, offset: Offset, max_bytes: int, upto_offset: Offset) -> bool:
        return (
            offset == self.base_offset
            and upto_offset >= self.end_offset
            and len(self.data) <= max_bytes
        )


def cannot_refetch(_history: QuorumHistory) -> bool:
    """Returns False: no other node has this log."""
    return False


class MetadataLog:
    """A log on disk that implements `trimaran.quorum.raft.log_view.LogView`; offsets as in `PartitionLog`. Methods
    raise KafkaError KAFKA_STORAGE_ERROR.

    Raises:
        SnapshotDamaged: no snapshot is valid, the log does not begin at 0, and there is no node to fetch from.
        LogDamaged: the log after the snapshot is damaged, or was damaged earlier and was cut, and there is no node to
            fetch from.
    """

    def __init__(
        self,
        log: PartitionLog,
        snapshots: SnapshotFiles,
        can_refetch: CanRefetch = cannot_refetch,
        recovery_point: RecoveryPoint | None = None,
    ) -> None:
        self.log = log
        self.snapshots = snapshots
        self.history = QuorumHistory()
        self.refetch = RefetchMark(log.directory)
        self._recovery_point = recovery_point or RecoveryPoint(log.directory)
        self._can_refetch = can_refetch
        self._newest: _Newest | None = None
        self._lower_checkpoint = log.before_truncate
        log.before_truncate = self._lower_recovery_points
        if self.refetch.end_offset is not None and not can_refetch(readable_history(log.directory)):
            raise still_damaged(log.directory, self.refetch.end_offset)
        try:
            self._open()
            self._check_log()
        except SnapshotDamaged as damage:
            if not can_refetch(readable_history(log.directory)):
                raise
            self._restart(damage)

    def _open(self) -> None:
        """Opens the log; finishes the replacement of the log by a fetched snapshot if a crash interrupted it."""
        self.snapshots.open(self.log.log_start_offset)
        latest = self.latest_snapshot
        if latest is not None and latest.rank > (
            max(self.log.epochs.latest_epoch, 0),
            self.end_offset,
        ):
            self.log.truncate_fully_and_start_at(Offset(latest.offset))
            self.snapshots.unlink(self.snapshots.forget_before(latest))
        if self.start_offset > 0 and self.earliest_snapshot is None:
            raise SnapshotDamaged(
                f"{self.log.directory} begins at {self.start_offset} without a snapshot"
            )

    def _restart(self, damage: SnapshotDamaged) -> None:
        """Empties the log, because its beginning cannot be trusted: all records are fetched again, and the node does
        not vote until then (R15).

        A crash during this leaves the log without its snapshot or the reverse, and the next start calls this function
        again.
        """
        events.METADATA_DAMAGED.log(
            log, directory=self.log.directory, offset=0, end_offset=self.end_offset, error=damage
        )
        self.refetch.set(self.end_offset)
        self.log.truncate_fully_and_start_at(Offset(0))
        for snapshot_id in list(self.snapshots.ids):
            self.snapshots.drop(snapshot_id, damage)
        self.history.clear()

    def _check_log(self) -> None:
        """Reads the history from the newest valid snapshot and the log after it, and checks every batch of that log.

        Older batches are checked by the nodes that fetch them. From the first damaged batch on, the log is fetched
        again (R15).
        """
        latest = self._newest_good_snapshot()
        offset = self.start_offset
        if latest is not None:
            note_snapshot(self.history, latest.id.offset, latest.data)
            offset = max(latest.id.offset, offset)
        while offset < self.end_offset:
            try:
                for batch in self.batches(offset, self.end_offset):
                    check_batch(batch)
                    note_batch(self.history, batch)
                    offset = batch.next_offset
            except (RemoteProtocolError, KafkaError) as error:
                if not self._can_refetch(readable_history(self.log.directory)):
                    raise refuse(self.log.directory, offset, self.end_offset, error) from error
                events.METADATA_DAMAGED.log(
                    log,
                    directory=self.log.directory,
                    offset=offset,
                    end_offset=self.end_offset,
                    error=error,
                )
                self.refetch.set(self.end_offset)
                self.log.truncate_to(Offset(offset))

    # --- LogView

    @property
    def refetch_end(self) -> Offset | None:
        return self.refetch.end_offset

    @property
    def start_offset(self) -> Offset:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> Offset:
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        latest = self.log.epochs.latest_epoch
        if latest >= 0:
            return latest
        snapshot = self.latest_snapshot
        return snapshot.epoch if snapshot is not None else LeaderEpoch(0)

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots.ids[0] if self.snapshots.ids else None

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots.ids[-1] if self.snapshots.ids else None

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        known_epoch, offset = self.log.end_offset_for_epoch(LeaderEpoch(epoch))
        if known_epoch < 0:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        earliest = self.earliest_snapshot
        if earliest is not None and offset == earliest.offset and known_epoch == epoch:
            return earliest
        return OffsetAndEpoch(offset, known_epoch)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return self.snapshots.size(snapshot_id)

    # --- changes

    def append_as_leader(self, append: LeaderAppend, now_ms: int) -> None:
        """Writes all batches with one call. Raises MetadataTooNew as `append_fetched` does."""
        ensure(
            append.base_offset == self.end_offset,
            "proposals go where they were promised",
            append.base_offset,
        )
        data = memoryview(bytearray().join(_encode(batch, now_ms) for batch in append.batches))
        batches = list(iter_batches(data))
        self.log.append_as_leader(
            data, batches, leader_epoch=LeaderEpoch(append.epoch), now_ms=now_ms
        )
        self._keep(append.base_offset, data)
        self._note(batches)

    def append_fetched(self, records: bytes | memoryview) -> None:
        """Appends validated batches of a leader.

        Raises:
            MetadataTooNew: the batches finalize a level that this version does not know.
        """
        view = memoryview(records)
        base_offset = self.end_offset
        self.log.append_as_follower(view)
        self._keep(base_offset, view)
        self._note(iter_batches(view))

    def _keep(self, base_offset: Offset, data: memoryview) -> None:
        """Keeps a batch in memory if it is not larger than one read."""
        fits = len(data) <= READ_BYTES
        self._newest = _Newest(base_offset, self.end_offset, data) if fits else None

    def _note(self, batches: Iterable[BatchView]) -> None:
        """Notes control records and levels. A level above ours is in the log already, so that the next start refuses
        before it votes.
        """
        for batch in batches:
            note_batch(self.history, batch)
            check_levels(batch, self.log.directory)

    def truncate_to(self, offset: Offset) -> None:
        self._newest = None
        self.log.truncate_to(Offset(offset))
        self.history.truncate_to(self.end_offset)

    def _lower_recovery_points(self, offset: Offset) -> None:
        with self.log.storage("saving the recovery point"):
            self._recovery_point.lower(offset)
        if self._lower_checkpoint is not None:
            self._lower_checkpoint(offset)

    def reach_recovery_point(self) -> None:
        """Notes the flushed end of the log for `save_recovery_point`; called on the loop."""
        self._recovery_point.reach(self.log.flushed_offset)

    def save_recovery_point(self) -> None:
        """Saves the recovery point. Blocks; called in a thread."""
        with self.log.storage("saving the recovery point"):
            self._recovery_point.save()

    def start_at_snapshot(self, snapshot_id: OffsetAndEpoch) -> list[Path]:
        """Replaces the log by the finished snapshot; returns files to unlink.

        Raises:
            MetadataTooNew: the snapshot has a level that this version does not know.
        """
        self._newest = None
        self.snapshots.added(snapshot_id)
        data = self.snapshots.read_all(snapshot_id)
        note_snapshot(self.history, snapshot_id.offset, data)
        self.log.truncate_fully_and_start_at(Offset(snapshot_id.offset))
        for batch in iter_batches(memoryview(data)):
            check_levels(batch, self.log.directory)
        return self.snapshots.forget_before(snapshot_id)

    def clean_before(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> list[Path]:
        """Drops the log and the snapshots before a snapshot; returns files to unlink."""
        self.log.delete_records_before(Offset(snapshot_id.offset))
        self.log.apply_retention(now_ms, snapshot_id.offset)
        self.history.trim_to(self.start_offset - 1)
        return self.snapshots.forget_before(snapshot_id)

    # --- reading

    def read_bytes(self, offset: Offset, max_bytes: int, upto_offset: Offset) -> bytes | memoryview:
        """Returns whole batches from `offset` on, at least one if there is one below `upto_offset`."""
        newest = self._newest
        if newest is not None and newest.answers(offset, max_bytes, upto_offset):
            return newest.data
        return self.log.read_bytes(Offset(offset), max_bytes, upto_offset=Offset(upto_offset))

    def batches(self, offset: Offset, upto_offset: Offset) -> Iterator[BatchView]:
        """Yields some batches from `offset` on, all below `upto_offset`."""
        return iter_batches(memoryview(self.read_bytes(offset, READ_BYTES, upto_offset)))

    def load_latest_snapshot(self) -> CheckedSnapshot | None:
        """Returns the newest valid snapshot. Blocks.

        Raises:
            SnapshotDamaged: no snapshot is valid and the log does not begin at 0, so this replica cannot be trusted
                (R15).
        """
        return self._newest_good_snapshot()

    def _newest_good_snapshot(self) -> CheckedSnapshot | None:
        while (latest := self.latest_snapshot) is not None:
            try:
                return check_snapshot(latest, self.snapshots.read_all(latest))
            except SnapshotDamaged as damage:
                # Records before the start of the log are only in the snapshot; with an empty log, so are the initial
                # voters.
                is_needed = self.start_offset > 0 or self.end_offset == 0
                if is_needed and len(self.snapshots.ids) == 1:
                    raise SnapshotDamaged(f"{self.snapshots.path(latest)}: {damage}") from damage
                self.snapshots.drop(latest, damage)
        return None

    def snapshot_part(self, snapshot_id: OffsetAndEpoch, size: int) -> bytearray:
        """Returns the fetched bytes of a snapshot. Blocks."""
        return self.snapshots.read_part(snapshot_id, size)

    def forget_applied(self, offset: Offset) -> None:
        """Does nothing, because a log on disk keeps applied records."""


def _encode(batch: ControlBatch | Proposal, now_ms: int) -> bytes:
    if isinstance(batch, Proposal):
        return batch.batch
    return encode_control_batch(batch, now_ms)


def validate_fetched(
    records: bytes | memoryview,
    offset: Offset,
    epoch: LeaderEpoch,
    last_epoch: LeaderEpoch = LeaderEpoch(0),
) -> memoryview:
    """Returns the whole batches of a fetch from `offset`, after a record of `last_epoch`, from a leader of `epoch`;
    drops a truncated batch at the end.

    Raises:
        RemoteProtocolError, KafkaError: the batches are damaged, do not continue at `offset`, are of an earlier or
            later epoch, or have other records than their headers claim. All records in the log must be readable
            whenever it is opened.
    """
    view = memoryview(records)
    size = 0
    for batch in iter_batches(view, allow_partial_tail=True):
        check_batch(batch)
        if batch.base_offset != offset:
            raise RemoteProtocolError(f"{batch!r} does not continue at {offset}")
        if not last_epoch <= batch.leader_epoch <= epoch:
            raise RemoteProtocolError(f"{batch!r} in a fetch of epoch {epoch}, behind {last_epoch}")
        if batch.count != batch.last_offset_delta + 1:
            raise RemoteProtocolError(f"{batch!r} has gaps, which no metadata log has")
        check_records(records_bytes(batch), batch.count, batch.base_timestamp)
        if batch.is_control:
            read_control_records(batch)  # voter records must be readable before they take effect
        offset, last_epoch = batch.next_offset, batch.leader_epoch
        size += batch.size
    return view[:size]


def open_metadata_log(
    directory: LogDirectory, config: LogConfig, can_refetch: CanRefetch = cannot_refetch
) -> MetadataLog:
    """Opens the metadata log in a node's directory, or creates it. Blocks.

    Raises:
        SnapshotDamaged, LogDamaged: see `MetadataLog`.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    path = directory.path / DIRECTORY_NAME
    with directory.health.guard("reading the recovery point"):
        point = RecoveryPoint(path)
    if CLUSTER_METADATA in directory:
        partition = _open(directory, path, config, point, can_refetch)
    else:
        with directory.health.guard("saving the recovery point"):
            point.lower(Offset(0))  # the saved point is from an earlier log
        partition = directory.create_log(CLUSTER_METADATA, None, config)
    return MetadataLog(partition, SnapshotFiles(path), can_refetch, point)


def _open(
    directory: LogDirectory,
    path: Path,
    config: LogConfig,
    point: RecoveryPoint,
    can_refetch: CanRefetch,
) -> PartitionLog:
    """Opens the log; after a crash, searches it for damage first, because opening would treat a damaged batch as a torn
    end.
    """
    if not directory.clean_shutdown:
        points = directory.offsets.recovery_points
        flushed_offset = Offset(max(point.offset, points.get(CLUSTER_METADATA, 0)))
        mend(directory, path, point, can_refetch, flushed_offset)
        if has_segments(path):
            noted = points.get(CLUSTER_METADATA, 0)
            points[CLUSTER_METADATA] = Offset(max(point.offset, noted))
        return directory.open_log(CLUSTER_METADATA, config)
    try:
        return directory.open_log(CLUSTER_METADATA, config)
    except KafkaError:
        if not mend(directory, path, point, can_refetch, None):
            raise
        directory.try_again(CLUSTER_METADATA)
        return directory.open_log(CLUSTER_METADATA, config)
