"""The log of one partition: appending, truncation, retention; its leader epochs, its producers, and its start.

Source: Kafka's `UnifiedLog`. `log/partitions/local_log.py` stores the bytes, and `log/partitions/readable_log.py` reads
them. The same class serves data partitions and `__cluster_metadata-0`. All calls are synchronous and come from one
thread (the event loop), except `Flush.run`. See `broker/partitions` for high watermark and leadership.

Errors: as in `LocalLog`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import LOG_APPEND_TIME, MAGIC, BatchView, iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.disk.atomic_file import write_unsynced
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.fetched_batches import sound_batches
from trimaran.log.partitions.local_log import Cut
from trimaran.log.partitions.names import parse_directory_name
from trimaran.log.partitions.opening import LOG_START, LastRun, load_log
from trimaran.log.partitions.readable_log import ReadableLog
from trimaran.log.partitions.retention import LogBounds, deletable
from trimaran.log.producers.manager import ProducerStateManager
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.recovery import lacks_index
from trimaran.log.segments.rolling import must_roll, room_left, runs_within_segment
from trimaran.log.segments.segment import Segment, SegmentDamaged
from trimaran.log.segments.transaction_index import AbortedTransaction
from trimaran.log.steps import Steps, at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset

Aborted = list[AbortedTransaction]
EPOCH_MAX = LeaderEpoch((1 << 31) - 1)


class AppendInfo(NamedTuple):
    """The result of an append. `log_append_time_ms` is `NO_TIMESTAMP` unless the topic stamps append time."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset


class PartitionLog(ReadableLog):
    """The offsets [log_start_offset, log_end_offset), the epochs in which they were written and the producers that
    wrote them.

    `before_truncate` is called with the new recovery point before bytes below the old one, or below the log's start,
    are removed, so that the owner can lower the checkpoints first.
    """

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        segments: list[Segment],
        epochs: LeaderEpochs,
        *,
        files: Files,
        health: DirectoryHealth,
    ) -> None:
        """Creates the log; used by `open`, which recovers it. `segments` has at least one element."""
        super().__init__(directory, config, segments, epochs, files=files, health=health)
        self.topic_partition = parse_directory_name(directory.name)
        self.epochs = epochs
        self.before_truncate: Callable[[Offset], None] | None = None
        self._producers = ProducerStateManager(directory, self._segments, files)

    def __repr__(self) -> str:
        return (
            f"{self.directory.name} [{self.log_start_offset}, {self.log_end_offset}), "
            f"flushed {self.flushed_offset}, {len(self._segments)} segments"
        )

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        last_run: LastRun,
        *,
        now_ms: int,
        files: Files = REAL_FILES,
        health: DirectoryHealth | None = None,
    ) -> PartitionLog:
        """Opens an existing directory (an empty one is an empty log) and recovers it after a crash.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: the flushed part is damaged or a file has the wrong type (only this replica
                fails), or the disk failed (the whole directory fails).
        """
        health = health or DirectoryHealth()
        with health.guard_names(f"opening {directory}"):
            try:
                segments, epochs = load_log(directory, config, files, last_run)
            except SegmentDamaged as damage:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage)) from damage
        log = cls(directory, config, segments, epochs, files=files, health=health)
        log._segments.active.opened_ms = now_ms
        log.log_start_offset = max(last_run.log_start_offset, segments[0].base_offset)
        is_clean = last_run.clean_shutdown
        log._flushing.flushed_offset = log.log_end_offset if is_clean else last_run.recovery_point
        # Recovery may have created indexes, and damaged epochs must be rewritten.
        log._flushing.touched = not is_clean or epochs.version > 0
        return log

    # Facts

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Returns the largest epoch not above `epoch` and its end offset (KIP-279); (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def knows_producers(self) -> bool:
        """Whether `producers` has been built."""
        return self._producers.state is not None

    def prepare(self) -> None:
        """Creates missing indexes and builds the state of producers, like Kafka's `LogLoader` before a log is served.
        It reads at most the active segment and those without an index. The next use of the log reports damage or a
        failing disk. It blocks, so it must run in a thread with exclusive use of the log.
        """
        with suppress(KafkaError, SegmentDamaged):
            with self.storage(f"rebuilding indexes in {self.directory}"):
                names = set(self.files.list_directory(self.directory))
                for segment in self.sealed_segments:
                    if lacks_index(names, segment.base_offset):
                        segment.rebuild(self.config.index_interval_bytes)
                        segment.release()
            _ = self.producers

    @property
    def producers(self) -> ProducerState:
        """Returns the state of idempotent producers at the log's end, built at the first access."""
        state = self._producers.state
        if state is None:
            state = at_once(self.load_producers())
        return state

    def load_producers(self) -> Steps[ProducerState]:
        """Builds `producers` in steps. Raises KafkaError as `find_aborted` does."""
        state = self._producers.state
        if state is not None:
            return state
        with self.storage(f"producer state of {self.directory.name}"):
            steps = self._producers.load(self.log_start_offset, self.log_end_offset)
            return (yield from self._while_it_lasts(steps))

    # Appending

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Begins a leader's epoch at the log's end, before it answers any request; after a restart the same epoch keeps
        its start.

        The epoch is therefore known even if nothing was written in it, and no follower can know a later one
        (KAFKA-7415). It is not flushed: a crash may lose an epoch without records, which the leader then begins again.
        """
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def append_as_leader(
        self, batches: memoryview, views: list[BatchView], *, leader_epoch: LeaderEpoch, now_ms: int
    ) -> AppendInfo:
        """Assigns the next offsets and `leader_epoch` to the batches, and writes them with one call.

        `batches` are exactly the validated bytes of `views`; they are stamped in place if writable, otherwise copied.
        Raises KafkaError: RECORD_LIST_TOO_LARGE: more than a segment can hold; KAFKA_STORAGE_ERROR.
        """
        if self.health.offline is not None:
            self.health.check()
        if len(batches) > self.config.segment_bytes:
            why = f"{len(batches)} bytes in a segment of {self.config.segment_bytes}"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, why)
        if batches.readonly:
            batches = memoryview(bytearray(batches))
            views = list(iter_batches(batches))
        append_time = self.config.message_timestamp_type is LOG_APPEND_TIME
        first_offset = offset = self.log_end_offset
        for view in views:
            view.stamp(offset, leader_epoch)
            if append_time and not view.is_control:
                view.stamp_append_time(now_ms)
            offset += view.last_offset_delta + 1
        self._append(batches, views, now_ms)
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, first_offset)
        return AppendInfo(
            first_offset, offset - 1, now_ms if append_time else NO_TIMESTAMP, self.log_start_offset
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: int = 0, leader_epoch: LeaderEpoch = EPOCH_MAX
    ) -> AppendInfo:
        """Appends fetched batches with their offsets and epochs; a partial batch at the end is ignored.

        Epochs must not decrease, and must not be later than `leader_epoch`, that of the current leader: no CRC covers
        them. Batches before a damaged one are appended.

        A leader whose log began under an old Kafka sends messages of v0 and v1 unchanged: they have no epoch.

        Raises:
            KafkaError: CORRUPT_MESSAGE: wrong CRC; OFFSET_OUT_OF_RANGE: the batches do not continue the log or each
                other; KAFKA_STORAGE_ERROR.
            RemoteProtocolError: the bytes are not batches, exceed the largest offset, or are of a later epoch.
        """
        self.health.check()
        first_offset = self.log_end_offset
        views, flaw = sound_batches(
            records,
            first_offset,
            epoch=self.epochs.epoch_for(first_offset - 1),
            leader_epoch=leader_epoch,
            may_begin_lower=self.log_start_offset == first_offset,
        )
        if not views:
            if flaw is not None:
                raise flaw
            return AppendInfo(first_offset, first_offset - 1, NO_TIMESTAMP, self.log_start_offset)
        start_offset = self.log_start_offset
        if views[0].base_offset < first_offset:
            self.truncate_fully_and_start_at(views[0].base_offset)
        start = 0
        for run, size in runs_within_segment(views, self.config.segment_bytes):
            self._append(records[start : start + size], run, now_ms)
            start += size
            for view in run:
                if view.leader_epoch != self.epochs.latest_epoch and view.magic == MAGIC:
                    self.epochs.assign(view.leader_epoch, view.base_offset)
        # This changes the start only if the first batch began below it.
        self.delete_records_before(start_offset)
        if flaw is not None:
            raise flaw
        return AppendInfo(first_offset, views[-1].last_offset, -1, self.log_start_offset)

    def _append(self, data: memoryview, views: list[BatchView], now_ms: int) -> None:
        producers, last = self._producers.state, views[-1]
        if producers is None:
            producers = self.producers
        last_offset = last.base_offset + last.last_offset_delta
        config, active, newest_ms = self.config, self._segments.active, last.max_timestamp
        room = active.room
        try:
            fits = room.config is config and active.size + len(data) <= room.end
            if not (fits and last_offset <= room.last_offset and 0 <= newest_ms <= room.newest_ms):
                if must_roll(active, config, len(data), last_offset, newest_ms, now_ms):
                    self._roll(self._base_of_next(views[0].base_offset, last_offset), now_ms)
                    active = self._segments.active
                active.room = room_left(active, config)
            self._flushing.touched = True
            if not active.size:
                self._create_files(active, now_ms)
            active.append(data, views, config.index_interval_bytes)
            if self._producers.unfinished is not None:
                self._producers.go_on()
            for view in views:
                if view.producer_id >= 0:
                    self._follow_producer(producers, view)
        except OSError as error:
            raise self.health.fail(f"append to {self.directory}: {error}") from error
        self.log_end_offset = producers.end_offset = last_offset + 1

    def _follow_producer(self, producers: ProducerState, view: BatchView) -> None:
        # Done before the state advances, so that a failure leaves the last stable offset unchanged (KAFKA-7866).
        aborted = producers.aborted_by(view)
        if aborted is not None and self._segments.active.transaction_index.append(aborted):
            self._flushing.names_changed()
        producers.update(view)

    def roll(self, now_ms: int) -> None:
        """Rolls a new segment at the log's end, unless the active one is empty. Raises KafkaError."""
        if self._segments.active.size:
            with self.storage(f"new segment in {self.directory}"):
                self._roll(self.log_end_offset, now_ms)

    def skip_to(self, offset: Offset, now_ms: int) -> None:
        """Extends the log to `offset` with an empty segment: compaction has removed all records before it. Raises
        KafkaError.
        """
        with self.storage(f"new segment in {self.directory}"):
            self._roll(offset, now_ms)
            self.log_end_offset = offset

    def _roll(self, base_offset: Offset, now_ms: int) -> None:
        if self._segments.active.size:
            _ = self.producers  # rolling leaves a snapshot that was not requested
            self._producers.begin_snapshot()
        self._begin_segment(base_offset, now_ms)

    # Transactions

    def last_stable_offset(self, high_watermark: Offset, *, must_know: bool = True) -> Offset:
        """Returns the end for read_committed readers: below it every transaction is decided and replicated (T3). If the
        producers are not loaded and not needed, it is `high_watermark`.
        """
        if not must_know and self._producers.state is None:
            return high_watermark
        stable = self.producers.transactions.last_stable_offset(high_watermark)
        return min(max(stable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, start: Offset, end: Offset) -> Aborted:
        """Returns the result of `find_aborted`, without steps."""
        return at_once(self.find_aborted(start, end))

    def has_no_aborts(self, start: Offset) -> bool:
        """Whether `find_aborted` returns nothing from `start` on, as in most logs; also False if that is unknown."""
        return self._producers.state is not None and self._segments.has_no_aborts(start)

    def find_aborted(
        self, start: Offset, end: Offset, removals: int | None = None
    ) -> Steps[Aborted]:
        """Finds the aborted transactions that overlap [start, end), in order of their markers' offsets (T8).

        `removals` is that of the log when the records were read (default: now). Readers keep the records of a removed
        segment without its index: aborted records would look committed. Raises KafkaError: KAFKA_STORAGE_ERROR;
        NOT_LEADER_OR_FOLLOWER: the log was truncated or closed, or a segment was removed.
        """
        removals = self.removals if removals is None else removals
        yield from self.load_producers()  # after a crash this completes the indexes
        return (yield from self._while_it_lasts(self._find_aborted(start, end), removals))

    def _find_aborted(self, start: Offset, end: Offset) -> Steps[Aborted]:
        with self.storage(f"transaction index of {self.directory.name}"):
            try:
                return (yield from self._segments.aborted_transactions(start, end))
            except IndexDamaged:
                self._producers.drop_damaged()
                yield from self.load_producers()
                return (yield from self._segments.aborted_transactions(start, end))

    # Shortening

    def truncate_to(self, offset: Offset) -> None:
        """Removes every batch with a record at `offset` or above; the log then ends after the remaining records, or is
        empty if none remain. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)
            return
        cut = self._cut_at(offset)
        if cut is None:
            # The rest of a batch that extends below the start is removed, too.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset))
            return
        self._lower_recovery_point(cut.offset)
        with self._lookup(f"truncation to {offset}"):
            self._cut(cut)
            self._forget_truncated()

    def _cut_at(self, offset: Offset) -> Cut | None:
        """Returns the place of the cut; None if no records remain."""
        if offset <= self._segments.bases[0] or offset < self.log_start_offset:
            return None
        with self._lookup(f"truncation to {offset}"):
            cut = self._place_of_cut(offset)
        return None if cut.offset < self.log_start_offset else cut

    def recovery_point_after(self, offset: Offset) -> Offset | None:
        """Returns the recovery point to checkpoint before `truncate_to(offset)`, if it must be lowered. Raises
        KafkaError.
        """
        if offset >= self.log_end_offset:
            return None
        cut = self._cut_at(offset)
        point = Offset(0) if cut is None else cut.offset
        return point if point < max(self.flushed_offset, self.log_start_offset) else None

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Removes all records; the empty log starts at `offset`. Raises KafkaError KAFKA_STORAGE_ERROR."""
        # A crash between removing the old segments and adding the new one leaves none: this is only consistent with a
        # flushed offset of zero, because the recorded start may be an older one.
        self._lower_recovery_point(LOG_START)
        with self.storage(f"emptying {self.directory}"):
            # Snapshots are removed first: they contain transactions with ends that are removed.
            self._producers.truncate(NO_OFFSET)
            self._restart_at(offset)
            self.log_start_offset = offset
            self.epochs.clear()
            self._forget_truncated()

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> bool:
        """Replaces segments by the compacted one made from them, unless they were removed or are active (the files of
        the new segment are then unused).

        Must not be called after a truncation: a segment that was cut and has grown again is the same object, so the
        caller compares `truncations`. Readers keep their open files. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        with self.storage(f"compaction of {self.directory.name}"):
            cleaned.release()
            if not self._segments.replace(old, cleaned.size):
                return False
            self._producers.remove_snapshots_of(old[1:])
        self._flushing.names_changed()
        return True

    def _lower_recovery_point(self, offset: Offset) -> None:
        is_noted = offset < max(self.flushed_offset, self.log_start_offset)
        if is_noted and self.before_truncate is not None:
            self.before_truncate(offset)
        self._flushing.lower(offset)

    def _forget_truncated(self) -> None:
        """Drops the state of records after the log's new end."""
        self.truncations += 1
        self.epochs.truncate_from_end(self.log_end_offset)
        self._producers.truncate(self.log_end_offset)

    def delete_records_before(self, offset: Offset) -> None:
        """Advances the log's start to `offset`, which the caller has checked against the high watermark.

        The producers of the deleted records remain known, as in Kafka, which reads them when it opens a log (I1).

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE: above the log's end; KAFKA_STORAGE_ERROR.
        """
        self.health.check()
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is above the end {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            _ = self.producers  # they could not be found by a read from the new start on
            self._start_at(offset)

    def _start_at(self, offset: Offset) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self._flushing.touched = True  # the epochs also record the log's start

    def apply_retention(
        self, now_ms: int, high_watermark: Offset, segments_max: int | None = None
    ) -> int:
        """Removes the oldest segments by time, size or the log's start, never above `high_watermark`.

        Returns:
            The number of removed segments, at most `segments_max`. `log_start_offset` advances to the remaining ones.
        """
        with self.storage(f"retention of {self.directory}"):
            segments = self._segments
            bounds = LogBounds(
                self.log_start_offset, self.log_end_offset, high_watermark, self.size_bytes
            )
            count = deletable(segments.all, bounds, self.config, now_ms, segments_max)
            if count == len(segments):  # the active segment is not empty
                self.roll(now_ms)
                # Otherwise the log's end could be lost with the old segments.
                self.files.fsync_directory(self.directory)
            segments.drop_first(count)
            if count:
                self._flushing.touched = True
                self._start_at(segments.bases[0])  # snapshots keep the removed producers
                self._producers.remove_snapshots_below(segments.bases[0])
        return count

    def remove_expired_producers(self, now_ms: int) -> int:
        """Removes loaded producers idle for `producer.id.expiration.ms`; returns the number loaded before."""
        return self._producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    def close(self, *, clean: bool = True) -> None:
        """Flushes and writes indexes and a producer snapshot, so that the next start need not scan the log.

        `clean=False` only closes the handles. A log that was not written since it was opened needs no flush.
        Raises KafkaError.
        """
        if clean and self.must_close:
            self.flush()
            self._complete_files(durable=True)
        self.is_closed = True
        self._segments.release()

    def close_unsynced(self) -> None:
        """Closes the log as `close` does, but without an fsync: a caller that closes thousands of logs syncs the volume
        once. Raises KafkaError.
        """
        if self.must_close:
            with self.storage(f"closing {self.directory}"):
                if (epochs := self._flushing.unsaved_epochs()) is not None:
                    write_unsynced(*epochs, self.files)
            self._complete_files(durable=False)
        self.is_closed = True
        self._segments.release()

    def _complete_files(self, *, durable: bool) -> None:
        with self.storage(f"closing {self.directory}"):
            active = self._segments.active
            if active.exists:
                active.seal()
                for file in active.index_files() if durable else ():
                    self.files.fdatasync(file)
            self._producers.take_snapshot(durable=durable)
        self.purge()
