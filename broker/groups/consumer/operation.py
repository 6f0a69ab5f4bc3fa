"""One input to a consumer group: a draft to decide on, the resulting records, and the group's timers.

Source: local variables of Kafka's `GroupMetadataManager`. Every record is applied to the draft as soon as it is
decided, so that the next rule sees it; the group itself changes when the records are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.consumer.assignors.model import Assignment, Work
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
)
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.outputs import AwaitedResponse, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.topics import Topics, metadata_hash
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.consumer_groups import ConsumerGroupKey, ConsumerGroupValue


class ConsumerTimer(StrEnum):
    """The timers of a consumer group and its members, in addition to the sessions of members."""

    REVOCATION = "revocation"  # removal of a member that has not revoked its partitions
    CLASSIC_JOIN = "classic join"  # deadline for a rejoin by a member of the classic protocol
    CLASSIC_SYNC = "classic sync"  # deadline for the sync of that member
    TARGET = "target"  # next step of the group's target


@dataclass(slots=True)
class TargetWork:
    """The target of `epoch`, which is first computed, then written for some members at a time."""

    epoch: GroupEpoch
    computing: Work[Assignment]
    assignment: Assignment | None = None
    unwritten: Iterator[str] | None = None


@dataclass(slots=True)
class GroupWork:
    """The long-running work for one consumer group: a target, or patterns. Exists once the group has had a request
    since the shard was loaded.

    It is not stored: the next coordinator of the group starts over. A target is computed in pieces, on a timer of the
    group, and patterns are matched in a thread, so that the event loop is never blocked for long.
    """

    target: TargetWork | None = None
    # The patterns to resolve, each with the rights of the member that sent it, and whether a task is resolving them.
    regexes: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    resolving: bool = False
    # The version of the metadata for which the group's hash was last checked.
    checked_topics: object = None
    # By pattern: the version of the metadata and the time (wall clock, ms) of the last check.
    checked_regexes: dict[str, tuple[object, int]] = field(default_factory=dict)


# The epoch of a new group without an assignment; its first target has the next epoch, as in Kafka.
FIRST_EPOCH = GroupEpoch(1)


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerGroupWrite(AwaitedResponse):
    """Records of a consumer group that result from a timer or from a member of the classic protocol."""

    group_id: str = ""


@dataclass(slots=True)
class ConsumerOperation:
    """One input to a consumer group; `group` is a draft."""

    group: ConsumerGroup
    at: Instant
    timers: Timers[TimerKey]
    settings: ConsumerGroupSettings
    topics: Topics
    work: GroupWork
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
            value = cast("ConsumerGroupValue | None", record.value)
            self.group.apply(cast(ConsumerGroupKey, record.key), value)

    def write_member(self, member: ConsumerMember) -> None:
        self.write([member_record(self.group.id, member)])

    def write_current(self, member: ConsumerMember) -> None:
        self.write([current_record(self.group.id, member)])

    def begin(self) -> None:
        """Writes the first epoch of a new group: no partition is assigned, but members have a valid epoch."""
        group_id = self.group.id
        self.write([epoch_record(group_id, FIRST_EPOCH, 0)])
        self.write([assignment_epoch_record(group_id, FIRST_EPOCH, 0)])

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members or topics: the target must be recomputed."""
        topics = metadata_hash(self.group.subscribed_topics(), self.topics)
        epoch = max(FIRST_EPOCH, self.group.epoch) + 1
        self.write([epoch_record(self.group.id, epoch, topics)])

    # -- timers

    def key(self, kind: str, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group.id, member_id)

    def set_timer(self, kind: str, delay_ms: int, member_id: str = "") -> None:
        self.timers.set(TimerKey(kind, self.group.id, member_id), self.at.after_ms(delay_ms))

    def set_timer_if_absent(self, kind: str, delay_ms: int, member_id: str) -> None:
        if self.key(kind, member_id) not in self.timers:
            self.set_timer(kind, delay_ms, member_id)

    def cancel_timer(self, kind: str, member_id: str = "") -> None:
        self.timers.cancel(self.key(kind, member_id))

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Restarts the member's session; a member of the classic protocol has chosen the session timeout."""
        classic = member.classic
        timeout_ms = (classic or self.settings).session_timeout_ms
        self.set_timer(Timer.SESSION, timeout_ms, member.id)

    def cancel_timers(self, member_id: str) -> None:
        for kind in (
            Timer.SESSION,
            ConsumerTimer.REVOCATION,
            ConsumerTimer.CLASSIC_JOIN,
            ConsumerTimer.CLASSIC_SYNC,
        ):
            self.cancel_timer(kind, member_id)
