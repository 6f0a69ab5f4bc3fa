"""A member of a share group (KIP-932): the heartbeats that it sends."""

from __future__ import annotations

from trimaran.client.membership import LEAVING, Membership
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareMembership(Membership):
    """A member that subscribes to one topic."""

    def __init__(self, group: str, member: str, topic: str) -> None:
        super().__init__(group, member, f"topic {topic}")
        self._topic = topic

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        """See `Membership.heartbeat`."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self.epoch,
            subscribed_topic_names=None if self.is_joined else [self._topic],
        )

    def _last_heartbeat(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=LEAVING
        )
