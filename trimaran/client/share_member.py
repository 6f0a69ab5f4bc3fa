"""A member of a share group (KIP-932): the heartbeats that it sends, and the partitions that it was assigned."""

from __future__ import annotations

from typing import Any

from trimaran.errors.refused import error_about
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch, TopicIdPartition
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

JOINING, LEAVING = GroupEpoch(0), GroupEpoch(-1)
# The coordinator has removed the member, for example after a pause without heartbeats: it joins again.
REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ShareMembership:
    """A member that subscribes to one topic. Times are seconds of a monotonic clock."""

    def __init__(self, group: str, member: str, topic: str) -> None:
        self.group, self.member, self.topic = group, member, topic
        self.assigned: frozenset[TopicIdPartition] = frozenset()
        self._epoch = JOINING
        self._due = 0.0

    @property
    def is_joined(self) -> bool:
        return self._epoch != JOINING

    def is_due(self, now: float) -> bool:
        """Whether the next heartbeat is due."""
        return not self.is_joined or now >= self._due

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        """Returns the next heartbeat; the first one joins the group."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self._epoch,
            subscribed_topic_names=None if self.is_joined else [self.topic],
        )

    def leaving(self) -> ShareGroupHeartbeatRequest | None:
        """Returns the heartbeat that leaves the group; None outside the group."""
        if not self.is_joined:
            return None
        self._epoch, self.assigned = JOINING, frozenset()
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=LEAVING
        )

    def received(self, response: Any, now: float) -> bool:
        """Continues with a response; returns whether the member is still in the group.

        Raises:
            KafkaError: the coordinator refused the member.
        """
        if response.error_code in REMOVED and self.is_joined:
            self._epoch, self.assigned = JOINING, frozenset()
            return False
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            is_of_topic = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            about = f"topic {self.topic}" if is_of_topic else f"group {self.group}"
            raise error_about(code, response.error_message, about)
        self._epoch = response.member_epoch
        self._due = now + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self.assigned = frozenset(
                TopicIdPartition(topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        return True
