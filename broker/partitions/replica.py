"""A replica on this broker, leading or following: its names, its log, its newest metadata, and its last high watermark.

It holds the state shared by its epochs, which begin and end in `trimaran.broker.partitions.partition`. A replica
without reads or writes costs only this object: its log is opened on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.broker.partitions.services import Services
from trimaran.broker.partitions.watchers import Watchers
from trimaran.broker.storage.new_replicas import Standing
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.recovery import READ_AT_ONCE_BYTES
from trimaran.node.runtime.pacing import run_paced
from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from trimaran.broker.metadata.topic_settings import TopicSettings
    from trimaran.log.directories.directory import LogDirectory

# The number of objects of an open log with a segment, and of the epoch, which the garbage collector should not scan.
OBJECTS_OF_LOG = 50


class Replica:
    """The state of a replica. `state` is the newest metadata; `saved_watermark` is the high watermark of the last ended
    epoch or, on a follower, the one last sent by the leader.

    `known_end` is a former end of the log, while the log is shorter: such a replica must not lead (P19). It is 0 if
    nothing is missing.
    """

    __slots__ = (
        "_is_new_here",
        "_log",
        "deleted",
        "index",
        "known_end",
        "saved_watermark",
        "services",
        "state",
        "topic",
        "topic_id",
        "topic_partition",
        "traffic",
        "watchers",
    )

    def __init__(
        self,
        services: Services,
        topic_partition: TopicPartition,
        topic_id: bytes,
        state: PartitionImage,
        saved_watermark: Offset = Offset(0),
        *,
        is_new: bool = False,
    ) -> None:
        """`is_new`: the partition, or this replica of it, was created while this process ran."""
        self.services = services
        self.topic_partition = topic_partition
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.state = state
        self.saved_watermark = saved_watermark
        self.known_end = 0
        self.deleted = False
        self._is_new_here = is_new
        self.watchers = Watchers()
        self.traffic = services.traffic.of(self.topic)
        self._log: PartitionLog | None = None

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.index)

    @property
    def name(self) -> str:
        return str(self.topic_partition)

    def __repr__(self) -> str:
        return f"<partition {self.name} leader {self.state.leader} epoch {self.state.leader_epoch}>"

    # -- leadership

    @property
    def leads(self) -> bool:
        return self.state.leader == self.services.node_id

    @property
    def follows(self) -> bool:
        return self.state.leader >= 0 and not self.leads

    # -- the log

    @property
    def settings(self) -> TopicSettings:
        return self.services.settings.of(self.topic)

    @property
    def log(self) -> PartitionLog:
        """The log, opened or created on first use; blocks as long as that takes.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; UNKNOWN_TOPIC_OR_PARTITION if this broker no longer has a replica.
        """
        if self._log is None:
            if self.deleted:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._log = self.services.directories.open_log(
                self.topic_partition,
                self.topic_id,
                self.settings.log,
                self.state.directory_of(self.services.node_id),
                self.standing,
            )
            self.services.long_lived.add(OBJECTS_OF_LOG)
            self._restore_known_end(self._log)
        return self._log

    def _restore_known_end(self, log: PartitionLog) -> None:
        directory = self.services.directories.holding(self.topic_partition)
        if directory is not None and self._has_all_committed(directory):
            checkpointed = directory.high_watermark(self.topic_partition)
            self.known_end = max(self.known_end, checkpointed)
        self._is_new_here = False
        # After a crash the log may end before the checkpoint, or the checkpoint may belong to a deleted topic of the
        # same name.
        self.saved_watermark = min(self.saved_watermark, log.log_end_offset)

    def _has_all_committed(self, directory: LogDirectory) -> bool:
        """Whether all committed records were on this disk, which is unknown after the crash of a broker that, like
        Kafka, acknowledged records before their flush. The flush policy of this process does not apply to the crashed
        one.
        """
        if directory.clean_shutdown:
            return True
        key = self.topic_partition
        return directory.high_watermark(key) <= directory.offsets.written_logs.get(key, 0)

    def accept_loss(self) -> None:
        """Accepts the loss of missing records: from now on, no checkpoint will refer to them after a crash. Blocks
        briefly. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        directory = self.services.directories.holding(self.topic_partition)
        if self._log is not None and directory is not None:
            end = self._log.log_end_offset
            directory.offsets.lower_recovery_point(self.topic_partition, end)
        self.known_end = 0

    def begin_empty(self) -> None:
        """Notes that all committed records come from the leader: no older copy of the replica is needed, and a new log
        may be created.
        """
        self._is_new_here = self._log is None

    @property
    def standing(self) -> Standing:
        """Returns the status of this replica's records in the metadata."""
        return Standing.NEW if self._is_new_here else Standing.of(self.state, self.services.node_id)

    @property
    def must_check(self) -> bool:
        """Whether opening `log` would have to repair a log after a crash, or to read much for its producer state:
        `check` does this in a thread or step by step.
        """
        log = self._log
        if log is None:
            return self.services.directories.must_check(self.topic_partition)
        return not log.knows_producers and log.active_segment.size > READ_AT_ONCE_BYTES

    async def check(self) -> None:
        """Repairs the log or loads its producer state. Raises KafkaError as `log` does, and NOT_LEADER_OR_FOLLOWER if
        the log was truncated or closed meanwhile.
        """
        if self._log is not None:
            await run_paced(self._log.load_producers())
            return
        await self.services.directories.check_log(
            self.topic_partition, self.topic_id, self.settings.log
        )

    def claim(self) -> None:
        """Calls `LogDirectories.claim` while this broker does not lead."""
        node_id = self.services.node_id
        is_followed = self.state.leader not in (NO_LEADER, node_id)
        self.services.directories.claim(
            self.topic_partition,
            self.topic_id,
            self.state.directory_of(node_id),
            self.standing,
            may_begin_anew=is_followed or self.state.replicas == (node_id,),
        )

    def prefer(self, target: LogDirectory) -> bool:
        """Calls `LogDirectories.prefer`."""
        return self.services.directories.prefer(
            self.topic_partition,
            self.topic_id,
            self.state.directory_of(self.services.node_id),
            self.standing,
            target,
        )

    @property
    def is_new(self) -> bool:
        """Whether the replica has no directory yet, and therefore no records."""
        if self._log is not None:
            return False
        directories = self.services.directories
        return directories.knows_nothing_of(self.topic_partition) or directories.is_untouched(
            self.topic_partition,
            self.topic_id,
            self.state.directory_of(self.services.node_id),
            self.standing,
        )

    @property
    def open_log(self) -> PartitionLog | None:
        """The log if it is open."""
        return self._log

    def watermark_in_log(self) -> Offset:
        """The last known high watermark, limited to the offsets that the log still has after a crash or truncation."""
        log = self.log
        return max(log.log_start_offset, min(self.saved_watermark, log.log_end_offset))

    def forget_log(self) -> None:
        """Releases the log, which has moved or was deleted; it is opened again on demand."""
        if self._log is not None:
            self.services.commit.forget(self._log)
            self._log = None


def why_incomplete(replica: Replica, end: Offset) -> str:
    """Returns the reason, for the server log, why a replica whose log ends at `end` does not lead."""
    return (
        f"{replica.name} ends at offset {end} here, but records up to offset {replica.known_end} were committed: put "
        f"the files back from a copy, or take the file damaged away from them while the broker is down, to go on "
        f"without those records"
    )
