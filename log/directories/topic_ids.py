"""The topic to which the replica in a partition's directory belongs, by `partition.metadata`.

Kafka treats a directory without the file as a stray (KAFKA-16814): no records were appended to it, because the file is
synced first. The same is true of our directories until the log's first flush. If records were flushed, the file is
damaged or lost, and the replica must not be treated as that of another topic: it is out of service until an operator
has inspected it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.log.disk.files import Files
from trimaran.log.disk.partition_metadata import (
    FILE_NAME,
    PartitionMetadataDamaged,
    read_partition_metadata,
)
from trimaran.log.disk.small_file import FileDamaged
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.segments.recovery import offsets_of
from trimaran.log.segments.segment import LOG_SUFFIX, file_name
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

# Ids are random: if two ids differ in only a few characters, they are the same id, corrupted by a bad disk. Kafka's
# file has no checksum.
CHARACTERS_OF_DAMAGE = 1


def topic_id_in(directory: Path, files: Files, health: DirectoryHealth) -> bytes | None:
    """Returns the topic id of a directory; None if the file is missing, or a crash interrupted the directory's
    creation. Blocks briefly.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR: the file is damaged, cannot be read, or is not a regular file (only this
            replica fails), or the disk failed (the whole log directory fails).
    """
    with health.guard_names(f"reading {FILE_NAME} of {directory}"):
        try:
            topic_id = read_partition_metadata(directory, files)
            if topic_id is None and not files.is_directory(directory):
                # It may be a link to a disk that is currently absent.
                raise _refused(
                    FileDamaged(f"{directory / FILE_NAME} is missing, with its directory")
                )
            return topic_id
        except PartitionMetadataDamaged as damage:
            if has_records(directory, files) and (
                not damage.may_be_torn or _was_flushed(directory, files)
            ):
                raise _refused(damage) from damage
            return None


def belongs(
    directory: Path, found: bytes | None, wanted: bytes, files: Files, health: DirectoryHealth
) -> bool:
    """Whether the replica in `directory`, with the id `found` by `topic_id_in`, belongs to the topic `wanted`.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR: `found` is not another topic's id but a damaged copy of `wanted`.
    """
    path = directory / FILE_NAME
    if found is None:
        with health.guard_names(f"looking into {directory}"):
            if has_records(directory, files) and _was_flushed(directory, files):
                raise _refused(FileDamaged(f"{path} is missing"))
    elif 0 < _differences(found, wanted) <= CHARACTERS_OF_DAMAGE:
        raise _refused(
            FileDamaged(
                f"{path} is damaged: it says {uuid_to_text(found)}, the topic is {uuid_to_text(wanted)}"
            )
        )
    return found == wanted


def has_records(directory: Path, files: Files) -> bool:
    """Whether the log has or had records: an emptied log continues at its old end."""
    bases = offsets_of(directory, LOG_SUFFIX, files)
    return any(base or files.status(directory / file_name(base, LOG_SUFFIX)).size for base in bases)


def _was_flushed(directory: Path, files: Files) -> bool:
    """Whether the log was flushed: the first flush syncs the topic id before it writes the leader epochs."""
    return LEADER_EPOCHS in files.list_directory(directory)


def _differences(one: bytes, other: bytes) -> int:
    """Returns the number of characters in which the texts of two ids differ."""
    pairs = zip(uuid_to_text(one), uuid_to_text(other), strict=True)
    return sum(mine != theirs for mine, theirs in pairs)


def _refused(damage: FileDamaged) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{damage}. Nothing else says which topic's records these are, so they are neither served nor taken away. Put "
        f"{FILE_NAME} back from a copy; or, if you know the topic's id, write it again: a line `version: 0` and a line "
        f"`topic_id: ID`",
    )


class TopicIds:
    """A cache of the topic ids of one log directory; `put` and `forget` follow its changes."""

    def __init__(
        self, files: Files, health: DirectoryHealth, directory_of: Callable[[TopicPartition], Path]
    ) -> None:
        self._files = files
        self._health = health
        self._directory_of = directory_of
        self._known: dict[TopicPartition, bytes | None] = {}

    def get(self, key: TopicPartition) -> bytes | None:
        """Returns the topic id as `topic_id_in` does."""
        if key not in self._known:
            directory = self._directory_of(key)
            self._known[key] = topic_id_in(directory, self._files, self._health)
        return self._known[key]

    def is_of(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Whether the replica belongs to the topic, as `belongs` does. Raises KafkaError like `belongs` and
        `topic_id_in`.
        """
        directory = self._directory_of(key)
        return belongs(directory, self.get(key), topic_id, self._files, self._health)

    def put(self, key: TopicPartition, topic_id: bytes | None) -> None:
        self._known[key] = topic_id

    def forget(self, key: TopicPartition) -> None:
        self._known.pop(key, None)
