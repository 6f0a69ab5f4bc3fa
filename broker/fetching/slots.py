"""The state of one partition in a fetch: its position, the last response, and the result of polling it."""

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
from trimaran.wire.identity import LeaderEpoch, Offset, TopicIdPartition, TopicPartition
from trimaran.wire.messages.fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NOTHING_SENT = -1


def key_of(topic: FetchTopic | ForgottenTopic, partition: int) -> TopicPartition | TopicIdPartition:
    """Returns the partition as a request names it: by the id of its topic, or by the name in requests without ids."""
    if topic.topic_id == NIL_UUID:
        return TopicPartition(topic.topic, partition)
    return TopicIdPartition(topic.topic_id, partition)


class Slot(Interest):
    """One partition of one fetch or fetch session; standing in its place in the session, it is also the interest.

    `known` is the replica here that was found last.
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
        """Takes over what a request says."""
        self.fetch_offset = Offset(wanted.fetch_offset)
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = LeaderEpoch(wanted.last_fetched_epoch)
        self.log_start_offset = Offset(wanted.log_start_offset)

    def named_in(self, partitions: Partitions) -> TopicPartition:
        """Returns the partition by the name of its topic. Raises KafkaError UNKNOWN_TOPIC_ID."""
        if self.known is not None and not self.known.deleted:
            return self.known.topic_partition
        if self.topic_id == NIL_UUID:
            return TopicPartition(self.topic, self.index)
        return TopicPartition(partitions.topic_name(self.topic_id), self.index)

    def partition(self, partitions: Partitions) -> Partition:
        """The replica here, if its epoch is what the reader takes it for; raises the KafkaError to answer."""
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
        """From now on the reader hears of changes of `partition`."""
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
    """The result of the last poll of a slot; `size` of the records; `urgent` ends the wait."""

    data: PartitionData
    size: int
    urgent: bool = False
    again: bool = False  # must be looked at by the next request whatever happens
    watermark: int = -1
    log_start_offset: int = -1
    leader: PartitionLeader | None = None  # the source of records
    unlisted: Unlisted | None = None


def is_news(slot: Slot, found: Found) -> bool:
    """Whether an incremental fetch tells it: the session has not heard of it (KIP-227)."""
    return bool(
        found.size
        or found.urgent
        or found.watermark != slot.sent_watermark
        or found.log_start_offset != slot.sent_log_start
    )
