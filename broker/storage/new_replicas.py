"""Decides whether the log of a replica may be created if no log directory has it under its name.

Even if no log was found, one may exist: the replica may be in a directory that is offline or could not be
read, in a `-future`, in a `-delete` that no controller ordered, or in a `-stray`. The controller's metadata shows which
replicas are new. Source: `Partition.createLogInAssignedDirectoryId` and `LogManager.getOrCreateLog` of Kafka, KIP-858;
stricter than Kafka, which treats every replica as new when its broker starts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from pathlib import Path

from trimaran.log.directories.directory import LogDirectory
from trimaran.quorum.metadata.image import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionImage,
)
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerId, TopicPartition

NOWHERE_YET = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


class Standing(Enum):
    """The state of this broker's replica in the controller's metadata."""

    # The partition was created, or assigned to this broker, while this process ran.
    NEW = "new"
    # Another broker leads, and this broker is neither in the ISR nor in the ELR: its records are not needed.
    SPARE = "spare"
    # The replica may be elected with the records that it has.
    HELD = "held"
    # Like HELD, but no other replica may be elected instead.
    LAST = "last"

    @classmethod
    def of(cls, state: PartitionImage, node_id: BrokerId) -> Standing:
        """Returns the standing of a replica that is not new."""
        is_led_elsewhere = state.leader not in (NO_LEADER, node_id)
        electable = {*state.isr, *state.elr}
        if is_led_elsewhere and node_id not in electable:
            return cls.SPARE
        return cls.HELD if electable - {node_id} else cls.LAST


def _copy_of(
    directory: LogDirectory, key: TopicPartition, topic_id: bytes, standing: Standing
) -> Path | None:
    """Returns a directory without the partition's name that may have records of the replica. Blocks briefly. Raises
    KafkaError.
    """
    futures = directory.futures
    if key in futures and futures.has_records(key) and _may_be_of(directory, key, topic_id):
        return directory.futures.directory(key)
    # A replica that comes back to this broker may find its old directory, if a power failure undid its deletion mark.
    return None if standing is Standing.SPARE else directory.aside.copy_of(key, topic_id)


def _may_be_of(directory: LogDirectory, key: TopicPartition, topic_id: bytes) -> bool:
    try:
        return directory.futures.is_of(key, topic_id)
    except KafkaError:
        directory.health.check()
        return True  # its partition.metadata is damaged


def why_not_made(
    directories: Collection[LogDirectory],
    unread: Collection[Path],
    key: TopicPartition,
    topic_id: bytes,
    assigned: bytes,
    standing: Standing,
) -> str | None:
    """Returns None if the log may be created, else the reason. `unread` has the directories that could not be read at
    startup.
    """
    if standing is Standing.NEW:
        return None
    name = f"{key}"
    online = [directory for directory in directories if directory.offline is None]
    offline = [directory for directory in directories if directory.offline is not None]
    for directory in online:
        try:
            copy = _copy_of(directory, key, topic_id, standing)
        except KafkaError as error:  # its message names the replica
            return error.message
        if copy is not None:
            return (
                f"no log of {name} is made, as {copy} may be all that is left of it: bring back the log directory that "
                f"holds {name}, or rename this one to {name}, or move it away to begin anew"
            )
    is_away = assigned not in (
        UNASSIGNED_DIRECTORY,
        *(directory.directory_id for directory in online),
    )
    if is_away and (offline or unread):
        return f"{name} may be in a log directory that is offline"
    if any(key in directory or key in directory.futures for directory in offline):
        return f"{name} is in a log directory that is offline"
    if standing is Standing.SPARE:
        return None
    if unread:
        return (
            f"{name} may be in {', '.join(map(str, unread))}, which could not be read when the broker started: mend "
            f"it, or take it out of log.dirs, and start the broker again"
        )
    for directory in online:
        if directory.clean_shutdown and (end := directory.high_watermark(key)) > 0:
            return (
                f"{directory.path / name} is missing, and records up to offset {end} were committed: put it back; to "
                f"begin again without them, while the broker is down take its line out of "
                f"{directory.path}/replication-offset-checkpoint, lower the count above the lines, and remove "
                f"the blanks at the end"
            )
    return None
