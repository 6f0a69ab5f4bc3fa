"""The membership of a client in a group whose coordinator assigns partitions in the answers to heartbeats (KIP-848,
KIP-932), without I/O.
"""

from __future__ import annotations

import base64
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, error_about
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch, TopicIdPartition

if TYPE_CHECKING:
    from trimaran.wire.schema import Message

JOINING, LEAVING = GroupEpoch(0), GroupEpoch(-1)
# The coordinator has removed the member, for example after a pause without heartbeats; the member joins again.
REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Membership(ABC):
    """A member, and the partitions that it was assigned. Times are seconds of a monotonic clock; `what` names the
    subscription in errors.
    """

    def __init__(self, group: str, member: str, what: str) -> None:
        self.group, self.member, self._what = group, member, what
        self.assigned: frozenset[TopicIdPartition] = frozenset()
        self.epoch = JOINING
        self._due = 0.0

    @abstractmethod
    def heartbeat(self) -> Message:
        """Returns the next heartbeat; the first one joins the group."""

    @abstractmethod
    def _last_heartbeat(self) -> Message:
        """Returns the heartbeat that leaves the group."""

    @property
    def is_joined(self) -> bool:
        return self.epoch != JOINING

    def is_due(self, now: float) -> bool:
        """Whether the next heartbeat is due."""
        return not self.is_joined or now >= self._due

    def leaving(self) -> Message | None:
        """Returns the heartbeat that leaves the group; None outside the group."""
        if not self.is_joined:
            return None
        self.epoch, self.assigned = JOINING, frozenset()
        return self._last_heartbeat()

    def received(self, response: Any, now: float) -> bool:
        """Continues with a response; returns whether the member is still in the group.

        Raises:
            KafkaError: the coordinator refused the member.
        """
        if response.error_code in REMOVED and self.is_joined:
            self.epoch, self.assigned = JOINING, frozenset()
            return False
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise KafkaError(code, f"no DESCRIBE for {self._what}")
            needs = Needs("READ", group=self.group)
            raise error_about(code, response.error_message, f"group {self.group}", needs)
        self.epoch = response.member_epoch
        self._due = now + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self.assigned = frozenset(
                TopicIdPartition(topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        return True


def new_member_id() -> str:
    """Returns a random id in the form of Kafka's `Uuid`."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
