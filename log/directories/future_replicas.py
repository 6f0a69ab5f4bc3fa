"""The replicas that are being moved into a log directory: each is copied into a `…-future` directory, which finally
takes the partition's name.

Source: Kafka's `LogManager` (`futureLogs`, KIP-113). `broker/background/directory_moves.py` copies the records and
decides when a move is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from trimaran.log.config import LogConfig
from trimaran.log.directories.aside_replicas import forget_topic_id
from trimaran.log.directories.topic_ids import belongs, has_records, topic_id_in
from trimaran.log.disk.files import Files
from trimaran.log.disk.partition_metadata import make_partition_directory
from trimaran.log.durability.flush import Names
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import (
    DELETE_SUFFIX,
    aside_name,
    future_name,
    parse_directory_name,
)
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


class FutureReplicas:
    """The partitions that are being moved here, in order. `deleted` receives the directories of abandoned moves."""

    def __init__(
        self,
        path: Path,
        files: Files,
        health: DirectoryHealth,
        now_ms: Callable[[], int],
        deleted: dict[Path, int | None],
    ) -> None:
        self._path = path
        self._files = files
        self._health = health
        self._now_ms = now_ms
        self._deleted = deleted
        self._directories: dict[TopicPartition, Path] = {}
        # The copies that this process has opened; None while a copy is being opened, possibly by a thread.
        self._opened: dict[TopicPartition, PartitionLog | None] = {}

    def __len__(self) -> int:
        return len(self._directories)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted(self._directories))

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._directories

    def note(self, name: str) -> None:
        """Records a directory that an earlier process left."""
        try:
            key = parse_directory_name(name)
        except ValueError:
            return
        if key in self:  # a crash interrupted a removal: each copy is a prefix of the replica
            self._deleted[self._path / name] = None
        else:
            self._directories[key] = self._path / name

    def open(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> PartitionLog:
        """Opens the log into which a replica is copied; a copy begun by an earlier process is checked and continued.

        The caller owns the log and closes it. Raises KafkaError: KAFKA_STORAGE_ERROR; INVALID_TOPIC_EXCEPTION: the name
        is too long.
        """
        found = self._directories.get(key)
        if found is not None and not self.is_of(key, topic_id):
            self.drop(key)
            found = None
        self._opened[key] = None
        try:
            log = PartitionLog.open(
                found or self._make(key, topic_id),
                config,
                LastRun(clean_shutdown=found is None),
                now_ms=self._now_ms(),
                files=self._files,
                health=self._health,
            )
        except BaseException:
            del self._opened[key]
            raise
        self._opened[key] = log
        return log

    def directory(self, key: TopicPartition) -> Path:
        """Returns the directory of a copy."""
        return self._directories[key]

    def has_records(self, key: TopicPartition) -> bool:
        """Whether any records were copied so far. Raises KafkaError."""
        directory = self._directories[key]
        with self._health.guard_names(f"looking into {directory}"):
            return has_records(directory, self._files)

    def is_of(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Whether the copy here belongs to the topic with that id. Raises KafkaError like `topic_id_in` and `belongs`:
        the copy is then kept, because it may be the last one.
        """
        directory = self._directories[key]
        found = topic_id_in(directory, self._files, self._health)
        return belongs(directory, found, topic_id, self._files, self._health)

    def _make(self, key: TopicPartition, topic_id: bytes) -> Path:
        try:
            directory = self._path / future_name(key)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
        with self._health.guard(f"creating {directory}"):
            make_partition_directory(directory, topic_id, self._files)
        self._directories[key] = directory
        return directory

    def drop(self, key: TopicPartition, names: Names | None = None) -> None:
        """Abandons a move; the caller has closed the log, but a flush may still use its `names`. Raises KafkaError."""
        directory = self._directories.get(key)
        if directory is not None:
            target = self._path / aside_name(key, DELETE_SUFFIX)
            names = names or Names()
            with self._health.guard_names(f"renaming {directory}"), names.taken_away():
                self._files.rename(directory, target)
                self._forget(key)
                self._deleted[target] = None
                forget_topic_id(target, self._files)

    def drop_left(self, key: TopicPartition, topic_id: bytes) -> None:
        """Drops a copy with that topic id that no move has open: a failed move left it, because it may have been the
        last copy. Raises KafkaError like `drop` and `is_of`.
        """
        if key not in self:
            return
        is_open = key in self._opened and ((log := self._opened[key]) is None or not log.is_closed)
        if not is_open and self.is_of(key, topic_id):
            self.drop(key)

    def promote(self, partition: TopicPartition, target: Path) -> None:
        """Durably renames the copy to the name of the partition. Blocks briefly. Raises KafkaError."""
        with self._health.guard(f"renaming {self._directories[partition]}"):
            self._files.rename(self._directories[partition], target)
            self._files.fsync_directory(self._path)
        self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        del self._directories[partition]
        self._opened.pop(partition, None)
