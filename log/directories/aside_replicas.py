"""The renamed directories of replicas, `…-delete` and `…-stray`, left by an earlier process.

Each may be the last copy of a replica: a move between log directories renames its source to `-delete` when the copy has
been given the name, and the disk with the copy may be absent at the next start. Therefore a log that should already
exist is not created while there is a directory with its topic id here. A deletion ordered by the controller leaves no
such copy: it removes `partition.metadata`, which would identify the directory. Kafka does not track this.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trimaran.log.directories.topic_ids import topic_id_in
from trimaran.log.disk.files import Files
from trimaran.log.disk.partition_metadata import FILE_NAME
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import DELETE_SUFFIX, STRAY_SUFFIX, aside_topic, put_aside_from
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition

# A topic name of at most this length is complete in the directory names (`aside_topic`).
UNCUT_CHARS = 200


class ReplicaToRemove(NamedTuple):
    """A replica that is to be removed although no controller has ordered it."""

    key: TopicIdPartition
    directory: Path


class AsideReplicas:
    """The directories by partition name, as far as the directory name contains it. `deleted` has the directories to
    remove.
    """

    def __init__(
        self, path: Path, files: Files, health: DirectoryHealth, deleted: dict[Path, int | None]
    ) -> None:
        self._path = path
        self._files = files
        self._health = health
        self._deleted = deleted
        self._directories: dict[TopicPartition, list[Path]] = {}
        # The topic ids read, nil if there is none: fetches of an empty replica check them repeatedly.
        self._known: dict[Path, bytes] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        """Whether `copy_of` must search; this check is fast."""
        if not self._directories:
            return False
        return partition in self._directories or len(partition.topic) > UNCUT_CHARS

    def note(self, name: str) -> None:
        """Records a directory that an earlier process renamed; ignores other names."""
        key = put_aside_from(name)
        if key is not None:
            self._directories.setdefault(key, []).append(self._path / name)

    def keep(self, directory: Path) -> None:
        """Keeps a directory from removal, because it may be the last copy of a replica."""
        self._deleted.pop(directory, None)

    def to_be_removed(self) -> list[ReplicaToRemove]:
        """Returns the directories to remove without an order of the controller. Blocks, so it runs in a thread. Raises
        KafkaError.
        """
        found = []
        for (_, partition), directories in sorted(self._directories.items()):
            for directory in directories:
                if directory not in self._deleted:
                    continue
                topic_id = self._topic_id(directory)
                if topic_id is not None:
                    key = TopicIdPartition(topic_id, partition)
                    found.append(ReplicaToRemove(key, directory))
        return found

    def copy_of(self, key: TopicPartition, topic_id: bytes) -> Path | None:
        """Returns the directory of a replica of that topic id, or of one with an unreadable `partition.metadata`.
        Blocks briefly. Raises KafkaError.
        """
        if key not in self:
            return None
        keys = {
            TopicPartition(aside_topic(key, s), key.partition)
            for s in (DELETE_SUFFIX, STRAY_SUFFIX)
        }
        for key in keys:
            for directory in self._directories.get(key, ()):
                if self._may_be_of(directory, topic_id):
                    return directory
        return None

    def _may_be_of(self, directory: Path, topic_id: bytes) -> bool:
        if self._known.get(directory, topic_id) != topic_id:
            return False
        with self._health.guard_names(f"reading {directory}"):
            try:
                names = self._files.list_directory(directory)
            except (FileNotFoundError, NotADirectoryError):
                return False  # removed since, or not the directory of a replica
        # Without the file the controller ordered the deletion, or a crash came before the first flush.
        is_known = FILE_NAME in names
        found = self._topic_id(directory, unknown=topic_id) if is_known else None
        if found == topic_id:  # not remembered, because an operator may move it away
            return True
        self._known[directory] = found or NIL_UUID
        return False

    def _topic_id(self, directory: Path, unknown: bytes | None = None) -> bytes | None:
        """Returns the topic id; `unknown` if `partition.metadata` is damaged. Raises KafkaError: the disk failed."""
        try:
            return topic_id_in(directory, self._files, self._health)
        except KafkaError:
            self._health.check()
            return unknown


def forget_topic_id(directory: Path, files: Files) -> None:
    """Removes the topic id from a directory that is to be removed, which marks it as not needed; does not follow links.
    Raises OSError.
    """
    if files.status(directory).is_directory:
        files.unlink(directory / FILE_NAME)
