"""The state of one partition in a fetch: its position, the last response, and the result of the last poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.watchers import Interest, Reader
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset, TopicIdPartition, TopicPartition
from trimaran.wire.messages.fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NOTHING_SENT = NO_OFFSET


def key_of(topic: FetchTopic | ForgottenTopic, partition: int) -> TopicPartition | TopicIdPartition:
    """Returns the partition as the request identifies it: by topic id, or by topic name in requests without ids."""
    if topic.topic_id == NIL_UUID:
        return TopicPartition(topic.topic, partition)
    return TopicIdPartition(topic.topic_id, partition)


class Slot(Interest):
    """One partition of one fetch or fetch session. The slot itself is also the interest that watches the partition.

    `known` is the replica on this broker that was last found.
    """

    __slots__ = (
        "attached_to",
        "fetch_offset",
        "index",
        "known",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "seen_upto",
        "sent_log_start",
        "sent_watermark",
        "topic",
        "topic_id",
        "upto_end",
    )

    def __init__(
        self,
        reader: Reader,
        topic: FetchTopic,
        wanted: FetchPartition,
        known: Partition | None = None,
        *,
        upto_end: bool,
    ) -> None:
        self.reader = reader
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = wanted.partition
        self.known = known
        self.upto_end = upto_end
        self.attached_to: Partition | None = None
        self.sent_watermark = NOTHING_SENT
        self.sent_log_start = NOTHING_SENT
        self.seen_upto = NOTHING_SENT
        self.update(wanted)

    def update(self, wanted: FetchPartition) -> None:
        """Sets the fields from a request."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset

    def named_in(self, partitions: Partitions) -> TopicPartition:
        """Returns the partition with its topic name. Raises KafkaError UNKNOWN_TOPIC_ID."""
        if self.known is not None and not self.known.deleted:
            return self.known.topic_partition
        if self.topic_id == NIL_UUID:
            return TopicPartition(self.topic, self.index)
        return TopicPartition(partitions.topic_name(self.topic_id), self.index)

    def partition(self, partitions: Partitions) -> Partition:
        """Returns the replica on this broker if its epoch equals that of the reader. Raises the KafkaError for the
        response otherwise.
        """
        partition = self.known
        if partition is None or partition.deleted:
            key = self.named_in(partitions)
            partition = self.known = partitions.hosted(key, self.leader_epoch)
            return partition
        if self.leader_epoch >= 0:
            epoch = partition.state.leader_epoch
            if self.leader_epoch < epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            if self.leader_epoch > epoch:
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return partition

    def attach(self, partition: Partition) -> None:
        """Notifies the reader of changes of `partition` from now on."""
        if self.attached_to is not partition:
            if self.attached_to is not None:
                self.detach()
            partition.watchers.add(self, upto_end=self.upto_end)
            self.attached_to = partition

    def detach(self) -> None:
        if self.attached_to is not None:
            self.attached_to.watchers.discard(self)
            self.attached_to = None


class Unlisted(NamedTuple):
    """A log whose aborted transactions take long to find, and its `removals` when the records were read."""

    log: PartitionLog
    removals: int


@dataclass(slots=True)
class Found:
    """The result of the last poll of a slot; `size` is the size of the records; `urgent` ends the wait."""

    data: PartitionData
    size: int
    urgent: bool = False
    again: bool = False  # the next request must read the slot again in any case
    watermark: Offset = NOTHING_SENT
    log_start_offset: Offset = NOTHING_SENT
    leader: PartitionLeader | None = None  # the leader from which the records were read
    unlisted: Unlisted | None = None


def is_news(slot: Slot, found: Found) -> bool:
    """Whether an incremental response includes the result: the session does not know it yet (KIP-227)."""
    return bool(
        found.size
        or found.urgent
        or found.watermark != slot.sent_watermark
        or found.log_start_offset != slot.sent_log_start
    )
