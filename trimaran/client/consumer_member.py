"""A member of a consumer group (KIP-848): the heartbeats that it sends.

The coordinator gives a partition to another member only after this member's heartbeats no longer list it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trimaran.client.membership import JOINING, LEAVING, Membership
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

# The time in which a member must return partitions: printing the fetched records may take long.
REBALANCE_MS = 60_000


@dataclass(frozen=True)
class MemberSubscription:
    """The topics of a member: names, and names by a regular expression that the coordinator evaluates (RE2)."""

    topics: Sequence[str]
    pattern: str | None = None

    def __str__(self) -> str:
        if self.pattern is None:
            return f"{'topic' if len(self.topics) == 1 else 'topics'} {', '.join(self.topics)}"
        return f"topics like {self.pattern}"


class ConsumerMembership(Membership):
    """A member with a subscription."""

    def __init__(self, group: str, member: str, subscription: MemberSubscription) -> None:
        super().__init__(group, member, str(subscription))
        self._subscription = subscription
        self._owned: frozenset[TopicIdPartition] = frozenset()
        self._told: frozenset[TopicIdPartition] | None = None

    def own(self, partitions: Collection[TopicIdPartition]) -> None:
        """Sets the partitions that the member reads; the next heartbeat names them, if they have changed."""
        self._owned = frozenset(partitions)
        if self._told != self._owned:
            self._due = 0.0

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """See `Membership.heartbeat`."""
        if not self.is_joined:
            self._owned = self._told = frozenset()
            return ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member,
                member_epoch=JOINING,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=list(self._subscription.topics) or None,
                subscribed_topic_regex=self._subscription.pattern,
                topic_partitions=[],
            )
        is_new = self._told != self._owned
        self._told = self._owned
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self.epoch,
            topic_partitions=_by_topic(self._owned) if is_new else None,
        )

    def _last_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=LEAVING
        )


def _by_topic(partitions: Collection[TopicIdPartition]) -> list[TopicPartitions]:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=each, partitions=found[each]) for each in found]
