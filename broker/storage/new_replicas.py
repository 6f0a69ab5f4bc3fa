"""Whether the log of a replica may be made, when no log directory holds it under its name.

That nothing was found does not say that there is nothing: the replica may lie in a directory that is offline or could
not be read, in a `-future`, in a `-delete` that no controller ordered, or in a `-stray`. The controller's metadata say
which replicas are new. Source: `Partition.createLogInAssignedDirectoryId` and `LogManager.getOrCreateLog` of Kafka,
KIP-858; stricter, as Kafka takes every replica for new when its broker starts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from pathlib import Path

from trimaran.log.directories.directory import LogDirectory
from trimaran.quorum.metadata.image import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerId, TopicPartition

NOWHERE_YET = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


class Standing(Enum):
    """The state of a replica here in the controller's metadata."""

    # The partition was made, or given to this broker, while this process ran.
    NEW = "new"
    # Another broker leads, and this one is neither in the ISR nor in the ELR: nothing depends on its records.
    SPARE = "spare"
    # It may be elected with the records that it has.
    HELD = "held"
    # As HELD, and no other replica may be elected in its place.
    LAST = "last"

    @classmethod
    def of(cls, state: PartitionImage, node_id: BrokerId) -> Standing:
        """Directory ids of a replica that is not new."""
        is_led_elsewhere = state.leader not in (-1, node_id)
        electable = {*state.isr, *state.elr}
        if is_led_elsewhere and node_id not in electable:
            return cls.SPARE
        return cls.HELD if electable - {node_id} else cls.LAST


def _copy_of(
    directory: LogDirectory, key: TopicPartition, topic_id: bytes, standing: Standing
) -> Path | None:
    """A directory without the partition's name that may hold records of the replica. Blocks shortly. Raises
    KafkaError.
    """
    futures = directory.futures
    if key in futures and futures.has_records(key) and _may_be_of(directory, key, topic_id):
        return directory.futures.directory(key)
    # A replica that was given away and comes back finds its old directory, if a power cut undid what told it.
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
    """None if the log may be made. `unread` are the directories that could not be read at the start."""
    if standing is Standing.NEW:
        return None
    name = f"{key}"
    online = [directory for directory in directories if directory.offline is None]
    offline = [directory for directory in directories if directory.offline is not None]
    for directory in online:
        try:
            copy = _copy_of(directory, key, topic_id, standing)
        except (
            KafkaError
        ) as error:  # which is of this replica, among the many that a fetch asks for
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
