"""The answers to members of the classic protocol that name a group of a kind that they may not join.

Source: the last branches of `classicGroupJoin`, `-Sync`, `-Heartbeat` and `-Leave` in Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.operation import join_error, sync_error
from trimaran.broker.groups.outputs import Outputs
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class NoClassicMembers:
    """The `ClassicMembers` of kinds whose groups members of the classic protocol may not join."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def join(self, join: Join, _at: Instant) -> None:
        self._outputs.respond(join.token, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))

    def sync(
        self, _request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], _at: Instant
    ) -> None:
        self._outputs.respond(token, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, _request: HeartbeatRequest, _at: Instant) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(
        self, _group_id: str, _identities: list[MemberIdentity], _at: Instant
    ) -> list[MemberResponse]:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
