"""The common part of one input to a group: a draft to decide on, the resulting records, and the group's timers.

Every record is applied to the draft as soon as it is decided, so that the next rule sees it; the group itself changes
when the records are replayed. Source: local variables of Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from trimaran.broker import events
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.heartbeating.group import HeartbeatGroup
from trimaran.broker.groups.heartbeating.member import HeartbeatMember
from trimaran.broker.groups.heartbeating.records import HeartbeatRecords
from trimaran.broker.groups.heartbeating.settings import HeartbeatSettings
from trimaran.broker.groups.outputs import AwaitedWrite, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.topics import Topics
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch

log = logging.getLogger(__name__)


class HeartbeatTimer(StrEnum):
    """The timers of groups whose members reconcile, in addition to the sessions of members."""

    REVOCATION = "revocation"  # removal of a member that has not given up its part
    TARGET = "target"  # next step of the group's target


G = TypeVar("G", bound=HeartbeatGroup[Any, Any])
M = TypeVar("M", bound=HeartbeatMember)
S = TypeVar("S", bound=HeartbeatSettings)
W = TypeVar("W", bound="HeartbeatWork")


@dataclass(slots=True, kw_only=True)
class HeartbeatWork:
    """The common part of the work for one group. It is not stored: the next coordinator of the group starts over."""

    # The members whose last response had a new assignment without a new epoch.
    unconfirmed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class HeartbeatGroupWrite(AwaitedWrite):
    """Records of a group that do not result from a heartbeat, but from a timer, a follow-up or another request. `kind`
    is the name of the kind of group.
    """

    kind: str = ""
    group_id: str = ""


@dataclass(slots=True)
class HeartbeatOperation(Generic[G, M, S, W]):
    """One input to a group `G` with members `M`, settings `S` and long-running work `W`; `group` is a draft."""

    RECORDS: ClassVar[HeartbeatRecords[Any, Any]]
    # The timers of a member.
    MEMBER_TIMERS: ClassVar[tuple[str, ...]] = (Timer.SESSION,)

    group: G
    at: Instant
    timers: Timers[TimerKey]
    settings: S
    topics: Topics
    work: W
    # Returns whether the limits of the request's principal admit this many more bytes.
    fits: Callable[[int], bool] = lambda _more: True
    # The id of a static member's previous incarnation; its timers run until the join is admitted.
    replaced: str = ""
    records: list[GroupRecord] = field(default_factory=list)

    # -- records

    def write(self, records: Iterable[GroupRecord]) -> None:
        """Adds `records` to the outcome, and applies them to the draft."""
        for record in records:
            self.records.append(record)
            self.group.apply(record.key, record.value)

    def write_member(self, member: M) -> None:
        self.write([self.RECORDS.member(self.group.id, member)])

    def write_current(self, member: M) -> None:
        self.write([self.RECORDS.current(self.group.id, member)])

    def write_step(self, member: M) -> None:
        """Writes a member's step towards its target, and sets the timer for the part that the member must give up, if
        any.
        """
        self.write_current(member)
        if (time_ms := self.revocation_ms(member)) is None:
            self.cancel_timer(HeartbeatTimer.REVOCATION, member.id)
        else:
            self.set_timer(HeartbeatTimer.REVOCATION, time_ms, member.id)

    def write_without(self, member_id: str) -> None:
        """Writes the tombstones of a member."""
        self.work.unconfirmed.discard(member_id)
        self.write(self.RECORDS.without_member(self.group.id, member_id))

    def note_fenced(self, member_id: str, reason: str) -> None:
        """Logs that a member is removed because one of its timers was due."""
        events.GROUP_MEMBER_FENCED.log(log, group=self.group.id, member=member_id, reason=reason)

    def write_assignment_epoch(self, epoch: GroupEpoch, now_ms: int) -> None:
        self.write([self.RECORDS.assignment_epoch(self.group.id, epoch, now_ms)])

    def finish_target(self, epoch: GroupEpoch) -> None:
        """Writes the epoch of a target whose records are written."""
        group = self.group
        events.GROUP_TARGET_ASSIGNED.log(
            log, group=group.id, epoch=epoch, members=len(group.members)
        )
        self.write_assignment_epoch(epoch, self.at.now_ms)

    # -- responses

    def may_lack_assignment(self, member: M, *, is_confirmed: bool, is_changed: bool) -> bool:
        """Returns whether the member may lack its assignment: the last response had a new assignment without a new
        epoch, and the member has not confirmed it. Must be called once for each heartbeat: `is_changed`, whether the
        response to this heartbeat has such an assignment, is remembered for the next one.

        In Kafka, the assignment is lost if a delayed request that the member has given up is served after its
        replacement. If an assignment with a new epoch is lost, the epoch of the member's next heartbeat shows that.
        """
        unconfirmed = self.work.unconfirmed
        may_lack = member.id in unconfirmed and not is_confirmed
        unconfirmed.discard(member.id)
        if is_changed:
            unconfirmed.add(member.id)
        return may_lack

    # -- limits

    @property
    def target_wait_ms(self) -> int:
        """The time until the next target is due; 0 if the last target is from the future, because the clock of the
        broker that wrote it was ahead.
        """
        since = self.at.now_ms - self.group.assignment_timestamp_ms
        return max(0, self.settings.assignment_interval_ms - since) if since >= 0 else 0

    def check_memory(self, more: int) -> None:
        """Raises KafkaError GROUP_MAX_SIZE_REACHED if the broker's limits do not admit a new member, or a larger one,
        that takes `more` bytes.
        """
        if not self.fits(more):
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The groups of this broker, or those of this principal, take as much memory as they may: try again "
                "when members have left.",
            )

    # -- timers

    def key(self, kind: str, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group.id, member_id)

    def has_timer(self, kind: str, member_id: str = "") -> bool:
        return self.key(kind, member_id) in self.timers

    def set_timer(self, kind: str, delay_ms: int, member_id: str = "") -> None:
        self.timers.set(TimerKey(kind, self.group.id, member_id), self.at.after_ms(delay_ms))

    def set_timer_if_absent(self, kind: str, delay_ms: int, member_id: str) -> None:
        if not self.has_timer(kind, member_id):
            self.set_timer(kind, delay_ms, member_id)

    def cancel_timer(self, kind: str, member_id: str = "") -> None:
        self.timers.cancel(self.key(kind, member_id))

    def cancel_timers(self, member_id: str) -> None:
        """Cancels all timers of a member."""
        for kind in self.MEMBER_TIMERS:
            self.cancel_timer(kind, member_id)

    def expect_heartbeat(self, member: M) -> None:
        """Restarts the member's session."""
        self.set_timer(Timer.SESSION, self.settings.session_timeout_ms, member.id)

    def expect(self, member: M) -> None:
        """Sets the missing timers of a member."""
        if not self.has_timer(Timer.SESSION, member.id):
            self.expect_heartbeat(member)
        if (time_ms := self.revocation_ms(member)) is not None:
            self.set_timer_if_absent(HeartbeatTimer.REVOCATION, time_ms, member.id)

    def revocation_ms(self, _member: M) -> int | None:
        """Returns the time in which the member must give up a part of its assignment, or None if it need not."""
        return None
