"""The common part of members: their epochs, and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from trimaran.broker.groups.memory import PARTITION_BYTES
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.schema import Message

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""

# Member epochs with a special meaning.
JOINING_EPOCH = GroupEpoch(0)
LEAVING_EPOCH = GroupEpoch(-1)
LEAVING_STATIC_EPOCH = GroupEpoch(-2)


class HeartbeatMember(Protocol):
    """A member, as given by its records. Values are immutable: a record creates a new one."""

    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> GroupEpoch: ...

    @property
    def held_bytes(self) -> int:
        """The approximate size of the member in memory, in bytes."""

    def metadata_value(self) -> Message:
        """Returns the value of the record of the member's own fields."""

    def current_value(self) -> Message:
        """Returns the value of the record of the member's epoch and its part of the assignment."""


class TopicEntry(Protocol):
    """The partitions of one topic in a record."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> list[int]: ...


def partitions_of(topics: Iterable[TopicEntry]) -> Partitions:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def partitions_bytes(partitions: Partitions) -> int:
    """Returns the approximate size of assigned partitions in memory."""
    return PARTITION_BYTES * sum(map(len, partitions.values()))


def with_epochs(
    partitions: Sequence[int], epochs: Sequence[GroupEpoch] | None, member_epoch: GroupEpoch
) -> dict[int, GroupEpoch]:
    """Returns the partitions of a record with the member epochs in which they were assigned (KIP-1251). Brokers before
    4.3 write no such epochs; the member's epoch, the strictest value, is used instead.
    """
    if epochs is None or len(epochs) != len(partitions):
        epochs = [member_epoch] * len(partitions)
    return dict(zip(partitions, epochs, strict=True))
