"""One input to a consumer group: a draft to decide on, the records that come of it, its timers.

Source: what Kafka's `GroupMetadataManager` keeps in local variables. Every record is applied to the draft as soon as it
is decided, so that the next rule sees it; the group itself changes when the records are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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
from trimaran.broker.groups.consumer.topics import Topics, metadata_hash
from trimaran.broker.groups.outputs import Answer, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.records.consumer_groups import ConsumerGroupKey, ConsumerGroupValue


@dataclass(slots=True)
class TargetWork:
    """The target of `epoch`: first computed, then written some members at a time."""

    epoch: int
    computing: Work[Assignment]
    assignment: Assignment | None = None
    unwritten: Iterator[str] | None = None


@dataclass(slots=True)
class GroupWork:
    """The work for one consumer group that takes longer than a moment: a target, or patterns. The group had a request
    since the shard was loaded.

    It is not in any record: the next coordinator of the group begins again. A target is computed in pieces, on a timer
    of the group, and patterns are matched in a thread, so that the loop is never held for long.
    """

    target: TargetWork | None = None
    # Patterns to be resolved, each with the rights of the member that sent it; and whether a task resolves them.
    regexes: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    resolving: bool = False
    # Against which state of the metadata the group's hash was found to be right.
    checked_topics: object = None
    # By pattern: the same, and when (wall clock, ms).
    checked_regexes: dict[str, tuple[object, int]] = field(default_factory=dict)


# The epoch of a new group without an assignment; its first target has the next one, as in Kafka.
FIRST_EPOCH = 1


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerGroupWrite(Answer):
    """Records of a consumer group that a timer or a member of the classic protocol has led to."""

    group_id: str = ""


@dataclass(slots=True)
class ConsumerOperation:
    """`group` is a draft."""

    group: ConsumerGroup
    at: Instant
    timers: Timers[TimerKey]
    settings: ConsumerGroupSettings
    topics: Topics
    work: GroupWork
    # Whether the principal of the request may take this many bytes more.
    fits: Callable[[int], bool] = lambda _more: True
    # Id of the earlier incarnation of a static member that joins. Its timers run until the join is admitted.
    replaced: str = ""
    records: list[GroupRecord] = field(default_factory=list)

    # -- records

    def write(self, records: Iterable[GroupRecord]) -> None:
        """Decides on `records`."""
        for record in records:
            self.records.append(record)
            value = cast("ConsumerGroupValue | None", record.value)
            self.group.apply(cast(ConsumerGroupKey, record.key), value)

    def write_member(self, member: ConsumerMember) -> None:
        self.write([member_record(self.group.id, member)])

    def write_current(self, member: ConsumerMember) -> None:
        self.write([current_record(self.group.id, member)])

    def begin(self) -> None:
        """Writes the first epoch of a new group: no partition is assigned, and members have an epoch to be at."""
        group_id = self.group.id
        self.write([epoch_record(group_id, FIRST_EPOCH, 0)])
        self.write([assignment_epoch_record(group_id, FIRST_EPOCH, 0)])

    def bump_epoch(self) -> None:
        """Counts the epoch up, as members or topics have changed: the target must be computed again."""
        topics = metadata_hash(self.group.subscribed_topics(), self.topics)
        epoch = max(FIRST_EPOCH, self.group.epoch) + 1
        self.write([epoch_record(self.group.id, epoch, topics)])

    # -- timers

    def key(self, kind: Timer, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group.id, member_id)

    def set_timer(self, kind: Timer, delay_ms: int, member_id: str = "") -> None:
        self.timers.set(TimerKey(kind, self.group.id, member_id), self.at.after_ms(delay_ms))

    def set_timer_if_absent(self, kind: Timer, delay_ms: int, member_id: str) -> None:
        if self.key(kind, member_id) not in self.timers:
            self.set_timer(kind, delay_ms, member_id)

    def cancel_timer(self, kind: Timer, member_id: str = "") -> None:
        self.timers.cancel(self.key(kind, member_id))

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Restarts the member's session; a member of the classic protocol has chosen its length."""
        classic = member.classic
        timeout_ms = (classic or self.settings).session_timeout_ms
        self.set_timer(Timer.SESSION, timeout_ms, member.id)

    def cancel_timers(self, member_id: str) -> None:
        for kind in (Timer.SESSION, Timer.REVOCATION, Timer.CLASSIC_JOIN, Timer.CLASSIC_SYNC):
            self.cancel_timer(kind, member_id)
