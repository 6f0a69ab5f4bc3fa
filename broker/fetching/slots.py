"""What a fetch wants of one partition, and what it was last told."""

from __future__ import annotations

from typing import TypeAlias

from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.watchers import Interest, Reader
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.fetch import FetchPartition, FetchTopic

NOTHING_SENT = -1

SlotKey: TypeAlias = tuple[str | bytes, int]
"""Topic name, or topic id from version 13 on, and partition index."""


class Slot(Interest):
    """One partition of one fetch or fetch session; standing in its place in the session, it is also the interest."""

    __slots__ = (
        "attached_to",
        "fetch_offset",
        "index",
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
        self, reader: Reader, topic: FetchTopic, wanted: FetchPartition, *, upto_end: bool
    ) -> None:
        super().__init__(reader)
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = wanted.partition
        self.upto_end = upto_end
        self.attached_to: Partition | None = None
        self.sent_watermark = NOTHING_SENT
        self.sent_log_start = NOTHING_SENT
        self.seen_upto = NOTHING_SENT
        self.update(wanted)

    @property
    def key(self) -> SlotKey:
        return (self.topic if self.topic_id == NIL_UUID else self.topic_id), self.index

    def update(self, wanted: FetchPartition) -> None:
        """Takes over what a request says."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset

    def name_in(self, partitions: Partitions) -> str:
        """Raises KafkaError UNKNOWN_TOPIC_ID."""
        return self.topic if self.topic_id == NIL_UUID else partitions.topic_name(self.topic_id)

    def partition(self, partitions: Partitions) -> Partition:
        """The replica here, if its epoch is what the reader takes it for; raises the KafkaError to answer."""
        partition = self.attached_to
        if partition is None or partition.deleted:
            return partitions.hosted(self.name_in(partitions), self.index, self.leader_epoch)
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
            self.detach()
            partition.watchers.add(self, upto_end=self.upto_end)
            self.attached_to = partition

    def detach(self) -> None:
        if self.attached_to is not None:
            self.attached_to.watchers.discard(self)
            self.attached_to = None
