"""A consumer group, as given by its records: epochs, members, the target, and the owners of partitions.

Source: Kafka's `ConsumerGroup` (KIP-848). Intentional difference: partitions are stored with the id of their owner, not
with its epoch, so that records of a compacted log may be applied in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from immutables import Map

from trimaran.broker.groups.consumer.member import ConsumerMember, Owned
from trimaran.broker.groups.heartbeating.group import NO_ASSIGNMENT_EPOCH, HeartbeatGroup
from trimaran.broker.groups.heartbeating.member import Partitions, partitions_of
from trimaran.broker.groups.memory import NAME_BYTES
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from trimaran.wire.schema import Message


class ConsumerGroupState(Enum):
    """The states of a group; the values are those of Kafka's protocol."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group
    RECONCILING = "Reconciling"  # members are reconciling
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matches, with the metadata offset and the time (wall clock, ms) of the match."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(HeartbeatGroup[ConsumerMember, Partitions]):
    """A consumer group. Invariants: a partition has at most one owner; `instances` maps to members; `bytes` is the size
    of all subscriptions.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, GroupEpoch(0), NO_ASSIGNMENT_EPOCH)
        self.instances: Map[str, str] = Map()
        self.owners: Map[bytes, Map[int, str]] = Map()
        self.regexes: Map[str, ResolvedRegex] = Map()
        # The numbers of members that subscribe to a name or a pattern, or use the classic protocol.
        self.name_counts: Map[str, int] = Map()
        self.regex_counts: Map[str, int] = Map()
        self.classic_count = 0
        # The numbers of members that prefer an assignor of the server.
        self.assignor_counts: Map[str, int] = Map()
        self.bytes = 0

    # -- queries

    @property
    def is_gone(self) -> bool:
        return super().is_gone and not self.regexes

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group; checks every member, since only administrators request it."""
        if self.is_empty:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.instances.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def subscribed_topics(self) -> set[str]:
        """Returns the names to which members subscribe, and those that patterns match."""
        topics = set(self.name_counts)
        for regex in self.regex_counts:
            if (resolved := self.regexes.get(regex)) is not None:
                topics |= resolved.topics
        return topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        topics = frozenset(member.subscribed_names)
        resolved = self.regexes.get(member.regex) if member.regex else None
        return topics if resolved is None else topics | resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.name_counts or any(
            topic in self.regexes[regex].topics
            for regex in self.regex_counts
            if regex in self.regexes
        )

    # -- records

    def apply(self, key: Message, value: Message | None) -> None:
        if isinstance(key, ConsumerGroupMetadataKey):
            self._apply_epoch(value)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._apply_current(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self._apply_target(key.member_id, _target(value))
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self._apply_assignment_epoch(value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._apply_regex(key.regular_expression, value)

    def _apply_epoch(self, value: Message | None) -> None:
        self.has_epoch = value is not None
        if isinstance(value, ConsumerGroupMetadataValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_regex(self, regex: str, value: Message | None) -> None:
        known = self.regexes.get(regex)
        if known is not None:
            self.held_bytes -= _regex_bytes(regex, known)
        if isinstance(value, ConsumerGroupRegularExpressionValue):
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.regexes = self.regexes.set(regex, resolved)
            self.held_bytes += _regex_bytes(regex, resolved)
        elif known is not None:
            self.regexes = self.regexes.delete(regex)

    def _apply_member(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or ConsumerMember(member_id)
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            self._put(known.with_metadata(value))
        else:
            self._drop(member_id)

    def _apply_current(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or ConsumerMember(member_id)
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            self._put(known.with_current(value))
        elif member_id in self.members:
            self._put(replace(known, assigned={}, revoking={}))

    def target_size(self, target: Partitions) -> int:
        return sum(map(len, target.values()))

    # -- members

    def _changed(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            self._forget(old)
        if new is not None:
            self._note(new)

    def _forget(self, member: ConsumerMember) -> None:
        for name in member.subscribed_names:
            self.name_counts = _count(self.name_counts, name, -1)
        if member.regex:
            self.regex_counts = _count(self.regex_counts, member.regex, -1)
        if member.assignor is not None:
            self.assignor_counts = _count(self.assignor_counts, member.assignor, -1)
        self.classic_count -= member.uses_classic_protocol
        self.bytes -= member.bytes
        instance_id = member.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member.id:
            self.instances = self.instances.delete(instance_id)
        for topic_id, partitions in _owned_by(member):
            self._release(member.id, topic_id, partitions)

    def _note(self, member: ConsumerMember) -> None:
        for name in member.subscribed_names:
            self.name_counts = _count(self.name_counts, name, 1)
        if member.regex:
            self.regex_counts = _count(self.regex_counts, member.regex, 1)
        if member.assignor is not None:
            self.assignor_counts = _count(self.assignor_counts, member.assignor, 1)
        self.classic_count += member.uses_classic_protocol
        self.bytes += member.bytes
        if member.instance_id is not None:
            self.instances = self.instances.set(member.instance_id, member.id)
        for topic_id, partitions in _owned_by(member):
            owners: Map[int, str] = self.owners.get(topic_id, Map())
            owners = owners.update(dict.fromkeys(partitions, member.id))
            self.owners = self.owners.set(topic_id, owners)

    def _release(self, member_id: str, topic_id: bytes, partitions: set[int]) -> None:
        owners: Map[int, str] = self.owners.get(topic_id, Map())
        with owners.mutate() as changing:
            for partition in partitions:
                if changing.get(partition) == member_id:
                    del changing[partition]
            left = changing.finish()
        self.owners = self.owners.set(topic_id, left) if left else self._without(topic_id)

    def _without(self, topic_id: bytes) -> Map[bytes, Map[int, str]]:
        return self.owners.delete(topic_id) if topic_id in self.owners else self.owners


def _target(value: Message | None) -> Partitions | None:
    if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        return partitions_of(value.topic_partitions)
    return None


def _regex_bytes(regex: str, resolved: ResolvedRegex) -> int:
    return text_bytes(regex) + NAME_BYTES * len(resolved.topics)


def _owned_by(member: ConsumerMember) -> Iterator[tuple[bytes, set[int]]]:
    owned: tuple[Owned, Owned] = (member.assigned, member.revoking)
    for topic_id in member.assigned.keys() | member.revoking.keys():
        yield (
            topic_id,
            {partition for by_topic in owned for partition in by_topic.get(topic_id, ())},
        )


def _count(counts: Map[str, int], key: str, change: int) -> Map[str, int]:
    number = counts.get(key, 0) + change
    return counts.set(key, number) if number else counts.delete(key)
