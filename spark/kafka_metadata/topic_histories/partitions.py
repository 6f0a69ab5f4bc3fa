"""Code shared by all folds over partitions: the replayed topics, the changes of their partitions, and causes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, NO_LEADER, PartitionImage
from trimaran.quorum.metadata.topics_delta import PartitionChange, TopicDelta
from trimaran.spark.kafka_metadata.log_walk.walk import WalkStep
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.identity import BrokerId
from trimaran.wire.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TOPIC_RECORDS = (
    TopicRecord,
    PartitionRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    ClearElrRecord,
)
BROKER_RECORDS = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    BrokerRegistrationChangeRecord,
)
# Cached by topic, since most records name the same few.
id_text = lru_cache(maxsize=1 << 14)(uuid_to_text)
RECOVERING = 1  # the value of leader_recovery_state after an unclean election


class TopicReplay:
    """The delta of the quorum over all records read, and the changes by the last record."""

    def __init__(self) -> None:
        self.delta = MetadataDelta(EMPTY)

    def topic(self, topic_id: bytes) -> TopicDelta | None:
        return self.delta.topics.changed.get(topic_id)

    def changes(self, step: WalkStep) -> Iterator[PartitionChange]:
        """Replays the record; yields (topic, index, before, after) for each partition that it changed or created."""
        message = step.message
        if isinstance(message, PartitionChangeRecord):
            yield self.delta.topics.change_partition(message)
        elif isinstance(message, PartitionRecord):
            yield self.delta.topics.add_partition(message)
        elif isinstance(message, ClearElrRecord):
            yield from self._cleared(message)
        else:
            self.delta.replay(message)

    def _cleared(self, message: ClearElrRecord) -> Iterator[PartitionChange]:
        held = [
            (topic, number, partition)
            for topic in self.delta.topics.changed.values()
            if not message.topic_name or topic.name == message.topic_name
            for number, partition in topic.partitions.items()
            if partition.elr or partition.last_known_elr
        ]
        self.delta.replay(message)
        for topic, number, before in held:
            yield topic, number, before, topic.partitions[number]

    def why_gone(self, broker_id: BrokerId) -> str | None:
        """Returns the reason for which a broker does not serve: `unregistered`, `controlled_shutdown` or `fenced`; None
        if it serves.
        """
        broker = self.delta.cluster.broker(broker_id)
        if broker is None:
            return "unregistered" if self.delta.cluster.changed_brokers else None
        if broker.in_controlled_shutdown:
            return "controlled_shutdown"
        return "fenced" if broker.fenced else None


def cause_of(old: PartitionImage, new: PartitionImage) -> str:
    """Returns the kind of the change; the most serious kind takes precedence."""
    if new.leader != old.leader:
        return "leader_change"
    if new.replicas != old.replicas or new.adding != old.adding or new.removing != old.removing:
        return "reassign"
    if new.isr != old.isr:
        if len(new.isr) < len(old.isr) or not set(new.isr).issuperset(old.isr):
            return "isr_shrink"
        if not set(old.isr).issuperset(new.isr):
            return "isr_expand"
    return "leader_change" if new.leader_epoch != old.leader_epoch else "other"


def without(one: tuple[BrokerId, ...], other: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """Returns the brokers that are in `one` and not in `other`, sorted."""
    # The lists are short, so sets would cost more.
    return tuple(sorted([broker for broker in one if broker not in other]))


remembered_without = lru_cache(maxsize=1 << 12)(without)  # most rows have the same few values


def known(leader: BrokerId) -> BrokerId | None:
    return None if leader == NO_LEADER else leader
