"""One input to a group: the state that it may use, and its outcome, which consists of responses and records.

The rules (`rebalance`, `joining`, `syncing`) are functions that take a `GroupOperation`; none of them waits or reads a
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from trimaran.broker.coordination.shard import Effects
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.classic.member import Member, Protocols
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import AwaitedWrite, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse
from trimaran.wire.records.groups import GroupMetadataValue
from trimaran.wire.schema import Message


class ClassicTimer(StrEnum):
    """The timers of a classic group, in addition to the sessions of members and pending members."""

    JOIN = "join"  # end of the join phase
    SYNC = "sync"  # removal of members that have not synced
    DOWNGRADE = "downgrade"  # start of a rebalance after a conversion from a consumer group


class Purpose(Enum):
    """The reason for writing a group, which determines the effect of the commit."""

    EMPTY_GENERATION = "empty generation"
    ASSIGNMENT = "assignment"
    STATIC_MEMBER = "static member"


@dataclass(frozen=True, slots=True)
class StaticReplacement:
    """The state of a static member before its new incarnation, restored if that cannot be stored. `old_owner` is the
    principal charged for the member, "" for none.
    """

    member: Member
    token: PendingResponse[JoinGroupResponse]
    old_member_id: str
    old_owner: str
    old_leader: str | None
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupWrite:
    """A write of a group, which takes effect when the record is committed."""

    group_id: str
    generation: int
    purpose: Purpose
    value: GroupMetadataValue
    assignments: dict[str, bytes] = field(default_factory=dict)
    replacement: StaticReplacement | None = None

    @property
    def records(self) -> tuple[GroupRecord]:
        return (group_record(self.group_id, self.value),)

    @property
    def atomic(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Succession:
    """The write that removes an empty consumer group, which a classic group has replaced in memory. If it fails, the
    classic group is removed.
    """

    group_id: str
    records: Sequence[GroupRecord]

    @property
    def atomic(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class GroupOperation:
    """One input to one group."""

    group: ClassicGroup
    at: Instant
    timers: Timers[TimerKey]
    limits: GroupLimits
    effects: Effects[GroupRecord]

    # -- responses

    def respond(self, token: PendingResponse[Any], response: Message) -> None:
        self.effects.responses.append((token, response))

    def respond_committed(
        self,
        token: PendingResponse[Any],
        response: Message,
        refused: Callable[[ErrorCode], Message],
    ) -> None:
        """Responds after the commit, see `AwaitedWrite`."""
        self.effects.writes.append(AwaitedWrite(token, response, refused))

    def respond_to_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answers the member's waiting join, if there is one."""
        token, member.join = member.join, None
        if token is not None:
            self.respond(token, response)

    def respond_to_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answers the member's waiting sync; returns False if there is none."""
        token, member.sync = member.sync, None
        if token is None:
            return False
        self.respond(token, response)
        return True

    def joined(self, member: Member) -> JoinGroupResponse:
        """Returns the current generation for `member`: the leader also gets all members."""
        group = self.group
        assert group.leader is not None, "a group with a member has a leader"
        leads = group.leader == member.id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader,
            member_id=member.id,
            members=self.joined_members() if leads else [],
        )

    def joined_members(self) -> list[JoinGroupResponseMember]:
        group = self.group
        return [
            JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]

    # -- timers

    def expect_heartbeat(self, member: Member, timeout_ms: int | None = None) -> None:
        """Restarts the member's session."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.set_timer(Timer.SESSION, timeout_ms, member.id)

    def expect_heartbeat_if_absent(self, member: Member) -> None:
        """Starts the session of a loaded member that has sent nothing yet."""
        if TimerKey(Timer.SESSION, self.group.id, member.id) not in self.timers:
            self.expect_heartbeat(member)

    def forget_heartbeat(self, member_id: str) -> None:
        self.timers.cancel(TimerKey(Timer.SESSION, self.group.id, member_id))

    def set_timer(self, kind: str, delay_ms: int, member_id: str = "") -> None:
        self.timers.set(TimerKey(kind, self.group.id, member_id), self.at.after_ms(delay_ms))

    def cancel_timer(self, kind: str) -> None:
        self.timers.cancel(TimerKey(kind, self.group.id))


def join_error(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Returns a refusal; with an empty `member_id`, the client starts over."""
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def leave_response(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=code,
    )
