"""A log directory: the partitions' directories, their checkpoints, and the directory's state (locked, healthy, clean).

Source: Kafka's `LogManager`, KIP-858 (directory ids). Opening is lazy: an unused partition is only a name in a list,
and a restart costs one directory listing. A broker with several directories has several of these objects, and chooses
among them (`trimaran.broker.storage.directories`).

Threads: calls that may take long (`purge`, `write_checkpoints`, `close`, measuring) may run in a thread; all others
belong to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock

from trimaran.log.config import LogConfig
from trimaran.log.directories.aside_replicas import AsideReplicas, forget_topic_id
from trimaran.log.directories.clean_shutdown import take_marker, write_marker
from trimaran.log.directories.closing import check_all, close_logs
from trimaran.log.directories.directory_lock import DirectoryLock
from trimaran.log.directories.future_replicas import FutureReplicas
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.directories.offset_checkpoints import CollectedCheckpoints, OffsetCheckpoints
from trimaran.log.directories.removal import remove_deleted
from trimaran.log.directories.topic_ids import TopicIds
from trimaran.log.disk.damage_note import note_damage, noted_damage
from trimaran.log.disk.files import REAL_FILES, Files, FileStatus, Volume, is_of_name
from trimaran.log.disk.partition_metadata import make_partition_directory
from trimaran.log.durability.flush import Names
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    aside_name,
    is_deleted_directory,
    is_partition_directory,
    partition_of,
)
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.recovery import takes_long
from trimaran.log.segments.segment import LOG_SUFFIX
from trimaran.log.segments.segments import due
from trimaran.log.steps import Steps, at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    LeaderEpoch,
    Offset,
    TopicPartition,
)

CLUSTER_METADATA = TopicPartition("__cluster_metadata", 0)
_Offsets = Mapping[TopicPartition, Offset]


class LogDirectory:
    """One log directory, locked from construction to `close`.

    `previous_broker_epoch` is the broker epoch of a clean shutdown, None if the last process crashed: the marker is
    removed when it is read, before any log is opened, so a crash during loading counts as a crash (KAFKA-10471).
    """

    def __init__(
        self,
        path: Path,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        files: Files = REAL_FILES,
        health: DirectoryHealth | None = None,
    ) -> None:
        """Takes the lock, reads identity, checkpoints and names.

        Raises:
            DirectoryLocked; MetaPropertiesError: not formatted.
            KafkaError: KAFKA_STORAGE_ERROR, unreadable.
        """
        self.path = path
        self.health = health or DirectoryHealth()
        self.broker_epoch = NO_BROKER_EPOCH  # for the marker of a clean shutdown
        self._files = files
        self._now_ms = now_ms
        self._logs: dict[TopicPartition, PartitionLog] = {}
        # Logs opened ahead by a thread, mostly after a crash, and the locks against opening a log twice.
        self._checked: dict[TopicPartition, PartitionLog] = {}
        self._opening: dict[TopicPartition, Lock] = {}
        self._unusable: dict[TopicPartition, str] = {}
        self._names: set[TopicPartition] = set()
        self._topic_ids = TopicIds(files, self.health, self._directory)
        self._deleted: dict[Path, int | None] = {}  # and the time when `purge` first saw them
        self.futures = FutureReplicas(path, files, self.health, now_ms, self._deleted)
        self.aside = AsideReplicas(path, files, self.health, self._deleted)
        self._lock = self._take_lock()
        try:
            with self.health.guard(f"reading the identity of {path}"):
                self.meta_properties = MetaProperties.load(path, files)
            if not self.meta_properties.cluster_id:
                raise MetaPropertiesError(
                    f"{path}: meta.properties has no cluster.id, Kafka before 2.4 wrote it; add that of the cluster it "
                    f"is to belong to"
                )
            with self.health.guard(f"opening {path}"):
                if not self.meta_properties.has_directory_id:
                    self.meta_properties = self.meta_properties.with_directory_id()
                    self.meta_properties.save(path, files)
                self.previous_broker_epoch = take_marker(path, files)
                self._list_names()
                self.offsets = OffsetCheckpoints(path, files, self.health, self._names)
                if not self.clean_shutdown:
                    self.offsets.miss_nothing()
        except BaseException:
            self._lock.release()
            raise

    def __repr__(self) -> str:
        return f"{self.path}: {len(self._names)} partitions, {len(self._logs)} open"

    # Identity and state

    @property
    def directory_id(self) -> bytes:
        return self.meta_properties.directory_id

    @property
    def offline(self) -> str | None:
        """Returns the reason why the directory must no longer be used, as in `DirectoryHealth`."""
        return self.health.offline

    @property
    def clean_shutdown(self) -> bool:
        return self.previous_broker_epoch is not None

    @property
    def replicas(self) -> int:
        """Returns the number of replicas here, including future ones."""
        return len(self._names) + len(self.futures)

    def partitions(self) -> set[TopicPartition]:
        """Returns all partitions with a directory, without `__cluster_metadata-0`."""
        return self._names - {CLUSTER_METADATA}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._names

    def topic_id(self, key: TopicPartition) -> bytes | None:
        """Returns the id in `partition.metadata`; None if there is no file. Raises KafkaError: it is damaged."""
        return self._topic_ids.get(key)

    def is_of(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Whether the replica here belongs to the topic with that id. Raises KafkaError: its id is damaged or lost."""
        return self._topic_ids.is_of(key, topic_id)

    def high_watermark(self, key: TopicPartition) -> Offset:
        """Returns the checkpointed high watermark; 0 if unknown. After a crash it may exceed the log's end."""
        return self.offsets.high_watermarks.get(key, Offset(0))

    def segment_files(self, key: TopicPartition) -> list[FileStatus]:
        """Returns the sizes and times of a partition's `.log` files, if it is here. Blocks. Raises OSError."""
        directory = self._directory(key)
        try:
            names = self._files.list_directory(directory)
            return [
                self._files.status(directory / name) for name in names if name.endswith(LOG_SUFFIX)
            ]
        except OSError as error:
            if not is_of_name(error):
                raise
            return []  # deleted meanwhile, or not a directory

    def volume(self) -> Volume:
        """Returns the sizes of the file system. Blocks. Raises OSError."""
        return self._files.volume(self.path)

    def unsettled(self) -> list[TopicPartition]:
        """Returns the partitions that were being written before a crash, which may need checks.

        In the other partitions at most the last seconds are unchecked; opening them checks those.
        """
        return sorted(self._names & self.offsets.written_logs.keys())

    # Logs

    def open_log(self, key: TopicPartition, config: LogConfig) -> PartitionLog:
        """Returns the log of an existing partition; opens (and recovers) it at the first call.

        After a crash this reads all bytes above the recovery point, which is little if checkpoints are frequent.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION: there is no directory; KAFKA_STORAGE_ERROR: see `PartitionLog.open`.
        """
        self.health.check()
        log = self._logs.get(key)
        if log is not None:
            return log
        if key not in self._names:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{key} is not in {self.path}")
        with self._alone(key):
            log = self._checked.pop(key, None) or self._load(key, config)
        log.config = config
        return self._adopt(key, log)

    def must_check(self, key: TopicPartition) -> bool:
        """Whether opening the log would check records after a crash or rebuild files, as `check_log` does in a
        thread.
        """
        is_known = key in self._logs or key in self._checked or key in self._unusable
        if is_known or key not in self._names:
            return False
        return not self.clean_shutdown or takes_long(self._directory(key), self._files)

    def try_again(self, key: TopicPartition) -> None:
        """Notes that the cause that made a log unusable was removed."""
        self._unusable.pop(key, None)

    def check_log(self, key: TopicPartition, config: LogConfig) -> None:
        """Opens a log in advance, so that `open_log` finds it ready. Runs in a thread; opening or deleting the log
        meanwhile waits. Raises KafkaError, which `open_log` will raise again.
        """
        with self._alone(key):
            if self.must_check(key):
                log = self._checked[key] = self._load(key, config)
                log.prepare()

    def end_of(self, key: TopicPartition) -> tuple[LeaderEpoch, Offset]:
        """Opens the log, which may take long, and returns its latest epoch and its end; if it is damaged, the values
        for an empty log. `open_log` finds it ready. Runs in a thread. Raises KafkaError: the disk failed.
        """
        try:
            with self._alone(key):
                log = self._checked[key] = self._load(key, LogConfig())
        except KafkaError:
            self.health.check()
            return NO_LEADER_EPOCH, NO_OFFSET
        return log.epochs.latest_epoch, log.log_end_offset

    def _alone(self, key: TopicPartition) -> AbstractContextManager[object]:
        return self._opening.setdefault(key, Lock())

    def _load(self, key: TopicPartition, config: LogConfig) -> PartitionLog:
        if (reason := self._unusable.get(key)) is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        directory = self._directory(key)
        with self.health.guard_names(f"opening {directory}"):
            reason = noted_damage(directory, self._files)
        if reason is not None:
            self._unusable[key] = reason
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        try:
            return PartitionLog.open(
                directory,
                config,
                LastRun(
                    recovery_point=Offset(self.offsets.recovery_points.get(key, 0)),
                    clean_shutdown=self.clean_shutdown,
                    log_start_offset=Offset(self.offsets.log_starts.get(key, 0)),
                    cleaned_to=self.offsets.cleaned_to(key),
                ),
                now_ms=self._now_ms(),
                files=self._files,
                health=self.health,
            )
        except KafkaError as error:
            # A second check would take long and find the same damage.
            self._unusable[key] = error.message
            is_damage = not isinstance(error.__cause__, OSError)  # the next start finds it again
            if is_damage and not self.clean_shutdown and key != CLUSTER_METADATA:
                # A clean shutdown may follow, and the next start then checks only the log's end.
                with suppress(KafkaError):
                    self._note_damage(key, error.message)
            raise

    def _note_damage(self, key: TopicPartition, reason: str) -> None:
        with self.health.guard_names(f"noting damage of {key}"):
            note_damage(self._directory(key), reason, self._files)

    def take_out(self, key: TopicPartition, reason: str) -> None:
        """Closes a damaged open log, and refuses it from now on, even after a restart. Blocks briefly.

        Raises KafkaError KAFKA_STORAGE_ERROR: the note could not be written; the log is refused only until the restart.
        """
        log = self._logs.pop(key)
        self._note_offsets(key, log)
        log.close(clean=False)
        self._unusable[key] = reason
        self._note_damage(key, reason)

    def create_log(
        self, key: TopicPartition, topic_id: bytes | None, config: LogConfig
    ) -> PartitionLog:
        """Creates the log of a new partition: a directory and `partition.metadata`, without segments.

        The names become durable with the log's first flush. `topic_id` is None for `__cluster_metadata` only.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; INVALID_TOPIC_EXCEPTION: the name is not valid for a directory.
        """
        if key in self._names:
            return self.open_log(key, config)
        _check_name(key)
        self.offsets.begin(key)
        directory = self._directory(key)
        with self.health.guard(f"creating {directory}"):
            make_partition_directory(directory, topic_id, self._files)
        self._names.add(key)
        self._topic_ids.put(key, topic_id)
        log = PartitionLog.open(
            directory,
            config,
            LastRun(clean_shutdown=True),
            now_ms=self._now_ms(),
            files=self._files,
            health=self.health,
        )
        return self._adopt(key, log)

    def delete_log(self, key: TopicPartition) -> None:
        """Deletes a partition for the controller; `purge` removes its files. Reads may continue. Raises KafkaError."""
        if key in self._names:
            directory = self._take_away(key, DELETE_SUFFIX)
            self._deleted[directory] = None
            with self.health.guard(f"deleting {directory}"):
                forget_topic_id(directory, self._files)

    def hand_over(self, key: TopicPartition) -> None:
        """Durably renames the source of a move to another log directory. Raises KafkaError."""
        try:
            self._deleted[self._take_away(key, DELETE_SUFFIX)] = None
        except KafkaError as error:
            raise self.health.fail(error.message) from error
        with self.health.guard(f"fsync of {self.path}"):
            self._files.fsync_directory(self.path)

    def forget(self, key: TopicPartition) -> None:
        """Forgets a partition on a failed disk, instead of `delete_log`: the directory keeps its name."""
        self._close_log(key)
        self._forget(key)

    def put_aside(self, key: TopicPartition) -> None:
        """Renames the directory of a foreign partition to `…-stray`, for an operator. Raises KafkaError."""
        if key in self._names:
            self.aside.note(self._take_away(key, STRAY_SUFFIX).name)

    def _take_away(self, key: TopicPartition, suffix: str) -> Path:
        with self._alone(key):
            names = self._close_log(key)
            target = self.path / aside_name(key, suffix)
            with self.health.guard_names(f"renaming {key}"), names.taken_away():
                self._files.rename(self._directory(key), target)
        self._forget(key)
        return target

    def _close_log(self, key: TopicPartition) -> Names:
        log = self._logs.pop(key, None) or self._checked.pop(key, None)
        if log is None:
            return Names()
        log.close(clean=False)
        return log.names

    def _forget(self, key: TopicPartition) -> None:
        self._names.discard(key)
        self._unusable.pop(key, None)
        self._topic_ids.forget(key)
        self.offsets.forget(key)

    def purge(self, delay_ms: int | None = None) -> None:
        """Removes deleted segments and partitions from the disk. Blocks; may run in a thread. Raises KafkaError.

        `delay_ms`: partitions are kept for this long after the first call that sees them, segments for the time
        configured by their topic; None removes all of them now.
        """
        now_ms = None if delay_ms is None else self._now_ms()
        for log in list(self._logs.values()):
            log.purge(now_ms)
        with self.health.guard(f"deleting in {self.path}"):
            for directory in due(self._deleted, now_ms, delay_ms or 0):
                remove_deleted(directory, self._files)
                self._deleted.pop(directory, None)  # the next process retries the remaining ones

    def promote_future(
        self,
        key: TopicPartition,
        *,
        start_offset: Offset = Offset(0),
        end_offset: Offset = Offset(0),
    ) -> None:
        """Durably renames the closed copy, flushed up to `end_offset`, to the partition. Raises KafkaError."""
        self.offsets.begin(key)
        self.offsets.note_log_start(key, start_offset)
        self.futures.promote(key, self._directory(key))
        self._names.add(key)
        self.offsets.recovery_points[key] = end_offset

    # Checkpoints

    def save_checkpoints(self, high_watermarks: _Offsets | None = None) -> None:
        """Writes recovery points, log start offsets and, if given, high watermarks. Blocks. Raises KafkaError."""
        self.write_checkpoints(self.collect_checkpoints(high_watermarks))

    def collect_checkpoints(self, high_watermarks: _Offsets | None = None) -> CollectedCheckpoints:
        """Returns the result of `collecting`, without steps."""
        return at_once(self.collecting(high_watermarks))

    def collecting(self, high_watermarks: _Offsets | None) -> Steps[CollectedCheckpoints]:
        """Collects the checkpoints for `write_checkpoints`, on the loop; each log is a step."""
        written: set[TopicPartition] = set()
        for key, log in list(self._logs.items()):
            yield 1
            if self._logs.get(key) is log:
                self._note_offsets(key, log)
                written.update([key] if log.must_close else ())
        return self.offsets.collect(high_watermarks, written)

    def write_checkpoints(self, collected: CollectedCheckpoints) -> bool:
        """Writes checkpoints, in a thread; returns False if it omits offsets older than a truncation. Raises
        KafkaError.
        """
        return self.offsets.write(collected)

    def close(
        self, *, broker_epoch: BrokerEpoch | None, high_watermarks: _Offsets | None = None
    ) -> None:
        """Closes all logs and releases the lock. Blocks.

        With `broker_epoch` the shutdown is clean and the marker is written (-1 means `self.broker_epoch`, which a
        controller leaves unknown); None leaves all files as a crash would. After a crash with too many logs to check
        now there is no marker: the next start checks them.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; the marker was then not written.
        """
        try:
            while self._checked:
                self._adopt(*self._checked.popitem())
            clean = broker_epoch is not None and self.offline is None
            all_checked = clean and self._check_unopened()
            clean = clean and self.offline is None
            close_logs(self._logs.values(), self.path, self._files, self.health, clean=clean)
            if clean:
                self.save_checkpoints(high_watermarks)
            if clean and all_checked:
                assert broker_epoch is not None
                with self.health.guard("clean shutdown marker"):
                    write_marker(self.path, max(broker_epoch, self.broker_epoch), self._files)
        finally:
            self._logs.clear()
            self._lock.release()

    def _check_unopened(self) -> bool:
        """Checks the logs that were not opened since a crash, and records damaged ones."""
        if self.clean_shutdown:
            return True

        def check(key: TopicPartition) -> None:
            with suppress(KafkaError):
                self._adopt(key, self._load(key, LogConfig()))

        unopened = self.partitions() - self._logs.keys() - self._unusable.keys()
        return check_all(sorted(unopened), check, self.path)

    # Inside

    def _adopt(self, key: TopicPartition, log: PartitionLog) -> PartitionLog:
        log.before_truncate = lambda offset: self.offsets.lower_recovery_point(key, offset)
        self._logs[key] = log
        return log

    def _note_offsets(self, key: TopicPartition, log: PartitionLog) -> None:
        self.offsets.recovery_points[key] = log.flushed_offset
        self.offsets.log_starts[key] = log.log_start_offset

    def _directory(self, key: TopicPartition) -> Path:
        return self.path / str(key)

    def _list_names(self) -> None:
        for name in self._files.list_directory(self.path):
            if (key := partition_of(name)) is not None:
                self._names.add(key)
            elif is_deleted_directory(name):
                self._deleted[self.path / name] = None
            elif name.endswith(FUTURE_SUFFIX):
                self.futures.note(name)
            self.aside.note(name)

    def _take_lock(self) -> DirectoryLock:
        with self.health.guard(f"locking {self.path}"):
            if not self._files.is_directory(self.path):
                raise MetaPropertiesError(f"{self.path} does not exist: it is not formatted")
            return DirectoryLock(self.path, self._files)


def _check_name(key: TopicPartition) -> None:
    if not is_partition_directory(str(key)):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{key.topic!r} cannot be a directory")
