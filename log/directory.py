"""A log directory: the partitions' directories, the checkpoints about them, the lock and the clean-shutdown marker.

Source: Kafka's `LogManager`, `CleanShutdownFileHandler` (KIP-966: the marker holds the broker epoch), KIP-858 (directory ids).
Opening is lazy: a partition that nobody touches is a name in a list; a restart costs one directory listing.
Left out: more than one directory per broker, moving partitions between directories.

Threads: the calls that may take long (`purge`, `save_checkpoints`, `close`) may run in a thread; the others belong to the loop.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from log.atomic_file import write_atomically
from log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointDamaged,
    TopicPartition,
    format_offsets,
    read_offsets,
)
from log.config import LogConfig
from log.files import REAL_FILES, Files, OpenFile
from log.flush import Names
from log.health import DirectoryHealth
from log.meta_properties import MetaProperties, MetaPropertiesError
from log.names import is_partition_directory, parse_directory_name
from log.partition_log import PartitionLog
from log.partition_metadata import FILE_NAME as PARTITION_METADATA
from log.partition_metadata import format_partition_metadata, read_partition_metadata
from wire.errors import ErrorCode, KafkaError

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
CLUSTER_METADATA = ("__cluster_metadata", 0)
FILE_NAME_BYTES_MAX = 255

_locked_here: set[Path] = set()  # POSIX locks do not exclude the process that holds them


class DirectoryLocked(Exception):
    """Another process (or this one) uses the directory."""


@dataclass(frozen=True, slots=True)
class CollectedCheckpoints:
    """Checkpoint files as of one moment on the loop."""

    truncations: int
    files: list[tuple[Path, bytes]]


class LogDirectory:
    """One log directory, locked from construction to `close`.

    `previous_broker_epoch` is that of a clean shutdown, None when the last process died: the marker is gone as soon as it was
    read, before any log is opened, so a crash during loading counts as a crash (KAFKA-10471).
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
            KafkaError: KAFKA_STORAGE_ERROR, unreadable, or a checkpoint is damaged and the marker says that it should not be.
        """
        self.path = path
        self.health = health or DirectoryHealth()
        self._files = files
        self._now_ms = now_ms
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._topic_ids: dict[TopicPartition, bytes | None] = {}
        self._deleted: list[Path] = []
        self._checkpoint_lock = Lock()  # held while one file is written
        self._truncations = 0  # a checkpoint collected before one must not be written after it
        self.damaged_checkpoints: list[str] = []  # for the log: what was ignored
        self._lock = self._take_lock()
        try:
            self.meta_properties = MetaProperties.load(path, files)
            with self.health.guard(f"opening {path}"):
                self.previous_broker_epoch = self._take_clean_shutdown_marker()
                self._names = self._list_names()
                self._recovery_points = self._read_checkpoint(RECOVERY_POINTS)
                self._log_starts = self._read_checkpoint(LOG_START_OFFSETS)
                self._high_watermarks = self._read_checkpoint(HIGH_WATERMARKS)
        except BaseException:
            self._release_lock()
            raise

    def __repr__(self) -> str:
        return f"{self.path}: {len(self._names)} partitions, {len(self._logs)} open"

    # Identity and state

    @property
    def offline(self) -> str | None:
        """Why the directory may not be used any more; set by the first OSError, for good."""
        return self.health.offline

    @offline.setter
    def offline(self, reason: str) -> None:
        self.health.fail(reason)

    @property
    def clean_shutdown(self) -> bool:
        return self.previous_broker_epoch is not None

    def partitions(self) -> list[TopicPartition]:
        """All partitions with a directory, `__cluster_metadata-0` not among them."""
        return sorted(self._names - {CLUSTER_METADATA})

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._names

    def topic_id(self, topic: str, partition: int) -> bytes | None:
        """From `partition.metadata`; None when it is missing or damaged: the directory is a stray (KAFKA-16814)."""
        key = (topic, partition)
        if key not in self._topic_ids:
            with self.health.guard(f"reading {PARTITION_METADATA}"):
                self._topic_ids[key] = read_partition_metadata(self._directory(key), self._files)
        return self._topic_ids[key]

    def high_watermark(self, topic: str, partition: int) -> int:
        """As checkpointed last; 0 when unknown. It may be ahead of the log after a crash: the caller bounds it."""
        return self._high_watermarks.get((topic, partition), 0)

    # Logs

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        """The log of an existing partition, opened (and recovered) when first asked for.

        After a crash this reads all that lies above the recovery point: checkpoint often, and it is little.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, there is no directory; KAFKA_STORAGE_ERROR, see `PartitionLog.open`.
        """
        self.health.check()
        key = (topic, partition)
        log = self._logs.get(key)
        if log is not None:
            return log
        if key not in self._names:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition} is not in {self.path}"
            )
        log = PartitionLog.open(
            self._directory(key),
            config,
            recovery_point=self._recovery_points.get(key, 0),
            clean_shutdown=self.clean_shutdown,
            now_ms=self._now_ms(),
            log_start_offset=self._log_starts.get(key, 0),
            files=self._files,
            health=self.health,
        )
        return self._adopt(key, log)

    def create_log(
        self, topic: str, partition: int, topic_id: bytes | None, config: LogConfig
    ) -> PartitionLog:
        """The log of a new partition: a directory and `partition.metadata`; segments come with the first append.

        The names become durable with the log's first flush. `topic_id` is None for `__cluster_metadata` only.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; INVALID_TOPIC_EXCEPTION, no name for a directory.
        """
        key = (topic, partition)
        if key in self._names:
            return self.open_log(topic, partition, config)
        if not is_partition_directory(f"{topic}-{partition}"):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!r} cannot be a directory")
        directory = self._directory(key)
        with self.health.guard(f"creating {directory}"):
            self._files.mkdir(directory)
            if topic_id is not None:
                file = self._files.open(directory / PARTITION_METADATA, create=True)
                self._files.pwrite(file, format_partition_metadata(topic_id), 0)
        self._names.add(key)
        self._topic_ids[key] = topic_id
        self._forget(key)
        log = PartitionLog.open(
            directory,
            config,
            recovery_point=0,
            clean_shutdown=True,
            now_ms=self._now_ms(),
            files=self._files,
            health=self.health,
        )
        log.note_new_directory()
        return self._adopt(key, log)

    def delete_log(self, topic: str, partition: int) -> None:
        """Renames the partition's directory to `…-delete`; `purge` removes it. Readers keep what they have open.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        if key not in self._names:
            return
        log = self._logs.pop(key, None)
        if log is not None:
            log.close(clean=False)
        names = Names() if log is None else log.names
        suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
        name = f"{topic[: FILE_NAME_BYTES_MAX - len(suffix) - 1 - len(str(partition))]}-{partition}{suffix}"
        with self.health.guard(f"deleting {topic}-{partition}"), names.taken_away():
            self._files.rename(self._directory(key), self.path / name)
        self._deleted.append(self.path / name)
        self._names.discard(key)
        self._topic_ids.pop(key, None)
        self._forget(key)

    def close_log(self, topic: str, partition: int) -> None:
        """Flushes and closes one log; it opens again when asked for. Blocks. Raises KafkaError."""
        log = self._logs.pop((topic, partition), None)
        if log is not None:
            log.close()
            self._note_offsets((topic, partition), log)

    def open_logs(self) -> Mapping[TopicPartition, PartitionLog]:
        return self._logs

    def purge(self) -> None:
        """Removes deleted segments and partitions from the disk. Blocks; may run in a thread. Raises KafkaError."""
        for log in list(self._logs.values()):
            log.purge()
        with self.health.guard(f"deleting in {self.path}"):
            while self._deleted:
                directory = self._deleted.pop()
                for name in self._files.list_directory(directory):
                    self._files.unlink(directory / name)
                self._files.rmdir(directory)

    # Checkpoints

    def save_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Writes recovery points, log start offsets and (when given) high watermarks. Blocks. Raises KafkaError."""
        self.write_checkpoints(self.collect_checkpoints(high_watermarks))

    def collect_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> CollectedCheckpoints:
        """What `write_checkpoints` writes, taken on the loop so that a thread can write it."""
        for key, log in self._logs.items():
            self._note_offsets(key, log)
        self._high_watermarks.update(high_watermarks or {})
        files = [
            (RECOVERY_POINTS, self._recovery_points),
            (LOG_START_OFFSETS, {k: v for k, v in self._log_starts.items() if v > 0}),
        ]
        if high_watermarks is not None:
            files.append((HIGH_WATERMARKS, self._high_watermarks))
        return CollectedCheckpoints(
            self._truncations,
            [(self.path / name, format_offsets(offsets)) for name, offsets in files],
        )

    def write_checkpoints(self, collected: CollectedCheckpoints) -> None:
        """Blocks; for a thread. Recovery points older than a truncation are left out. Raises KafkaError."""
        for path, text in collected.files:
            with self._checkpoint_lock, self.health.guard(f"writing {path}"):
                if path.name != RECOVERY_POINTS or collected.truncations == self._truncations:
                    write_atomically(path, text, self._files)

    def close(
        self,
        *,
        broker_epoch: int | None,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Closes all logs and gives the lock back. Blocks.

        `broker_epoch`: the shutdown is clean and the marker says so (-1 for a controller); None: leave everything as a crash would.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; the marker was not written then.
        """
        try:
            clean = broker_epoch is not None and self.offline is None
            for log in self._logs.values():
                log.close(clean=clean)
            if clean:
                self.save_checkpoints(high_watermarks)
                marker = json.dumps(
                    {"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")
                )
                with self.health.guard("clean shutdown marker"):
                    write_atomically(self.path / CLEAN_SHUTDOWN, marker.encode(), self._files)
        finally:
            self._logs.clear()
            self._release_lock()

    # Inside

    def _adopt(self, key: TopicPartition, log: PartitionLog) -> PartitionLog:
        log.before_truncate = lambda offset: self._lower_recovery_point(key, offset)
        self._logs[key] = log
        return log

    def _lower_recovery_point(self, key: TopicPartition, offset: int) -> None:
        """A checkpoint above the log's end would look like lost data after a crash: it is lowered before bytes go."""
        if self._recovery_points.get(key, 0) <= offset:
            return
        self._recovery_points[key] = offset
        with self._checkpoint_lock, self.health.guard(f"writing {RECOVERY_POINTS}"):
            self._truncations += 1
            text = format_offsets(self._recovery_points)
            write_atomically(self.path / RECOVERY_POINTS, text, self._files)

    def _note_offsets(self, key: TopicPartition, log: PartitionLog) -> None:
        self._recovery_points[key] = log.flushed_offset
        self._log_starts[key] = log.log_start_offset

    def _forget(self, key: TopicPartition) -> None:
        for offsets in (self._recovery_points, self._log_starts, self._high_watermarks):
            offsets.pop(key, None)

    def _directory(self, key: TopicPartition) -> Path:
        return self.path / f"{key[0]}-{key[1]}"

    def _list_names(self) -> set[TopicPartition]:
        names: set[TopicPartition] = set()
        for name in self._files.list_directory(self.path):
            if name.endswith(DELETE_SUFFIX):
                self._deleted.append(self.path / name)
            elif is_partition_directory(name):
                names.add(parse_directory_name(name))
        return names

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.path / name, self._files)
        except CheckpointDamaged as damage:
            # Nothing is guessed: without recovery points everything is checked, without log starts the first segment's base
            # counts, without high watermarks they are learnt from the ISR.
            self.damaged_checkpoints.append(str(damage))
            return {}

    def _take_clean_shutdown_marker(self) -> int | None:
        path = self.path / CLEAN_SHUTDOWN
        try:
            text = self._files.read_bytes(path)
        except FileNotFoundError:
            return None
        self._files.unlink(path)
        self._files.fsync_directory(self.path)
        try:
            epoch = json.loads(text)["brokerEpoch"]
        except (ValueError, TypeError, KeyError):
            return -1  # Kafka before 3.8 wrote an empty file: clean, epoch unknown
        return epoch if isinstance(epoch, int) else -1

    def _take_lock(self) -> OpenFile:
        resolved = self._files.resolve(self.path)
        if resolved in _locked_here:
            raise DirectoryLocked(f"{self.path} is already open in this process")
        if not self._files.is_directory(self.path):
            raise MetaPropertiesError(f"{self.path} does not exist: it is not formatted")
        with self.health.guard(f"locking {self.path}"):
            file = self._files.open(self.path / LOCK, create=True)
            try:
                self._files.lock(file)
            except BlockingIOError:
                raise DirectoryLocked(f"{self.path} is in use by another process") from None
        _locked_here.add(resolved)
        return file

    def _release_lock(self) -> None:
        self._files.unlock(self._lock)
        _locked_here.discard(self._files.resolve(self.path))
