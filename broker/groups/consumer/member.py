"""One member of a consumer group, and its partitions.

Source: Kafka's `ConsumerGroupMember`, `MemberState`. Values are immutable: a record creates a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, with_epochs
from trimaran.broker.groups.memory import MEMBER_BYTES, PARTITION_BYTES
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

Owned = Mapping[bytes, Mapping[int, GroupEpoch]]
"""Partitions by topic id, each with the member epoch in which it was assigned (KIP-1251)."""


class MemberState(IntEnum):
    """The progress of a member towards its target; the values are those of records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # must revoke partitions first
    UNRELEASED_PARTITIONS = 2  # waits for partitions of other members
    UNKNOWN = 127  # written by a newer coordinator


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member, as given by its records. `subscribed_names` is sorted; `regex` is "" without a pattern.

    `classic` has the JoinGroup metadata of a member of the classic protocol, and is None for members of the consumer
    protocol.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_names: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: GroupEpoch = JOINING_EPOCH
    previous_epoch: GroupEpoch = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that a member of the classic protocol has chosen."""
        assert self.classic is not None
        return self.classic.session_timeout_ms

    @property
    def bytes(self) -> int:
        """The approximate size of the member's subscription, in bytes."""
        size = sum(map(text_bytes, self.subscribed_names)) + text_bytes(self.regex)
        if self.classic is not None:
            size += sum(
                len(protocol.name) + len(protocol.metadata)
                for protocol in self.classic.supported_protocols
            )
        return size

    @property
    def held_bytes(self) -> int:
        """The approximate size of the member in memory, in bytes."""
        texts = (self.id, self.client_id, self.client_host, self.instance_id, self.rack_id)
        owned = sum(map(len, self.assigned.values())) + sum(map(len, self.revoking.values()))
        said = self.bytes + sum(text_bytes(text) for text in texts if text is not None)
        return MEMBER_BYTES + said + PARTITION_BYTES * owned

    def is_reconciled_to(self, assignment_epoch: GroupEpoch) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    # -- records

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_names=tuple(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.subscribed_names),
            subscribed_topic_regex=self.regex or None,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def current_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_topic_partitions(self.assigned),
            partitions_pending_revocation=_topic_partitions(self.revoking),
        )

    def __str__(self) -> str:
        parts = f"{self.id} epoch {self.epoch} {self.state.name}"
        return parts + " classic" * self.uses_classic_protocol


def _owned(topics: Iterable[TopicPartitions], member_epoch: GroupEpoch) -> Owned:
    """Converts owned partitions from a record."""
    return {
        topic.topic_id: with_epochs(topic.partitions, topic.assignment_epochs, member_epoch)
        for topic in topics
        if topic.partitions
    }


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=list(partitions),
            assignment_epochs=list(partitions.values()),
        )
        for topic_id, partitions in owned.items()
    ]
