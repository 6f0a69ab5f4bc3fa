"""One input to a consumer group, and the group's long-running work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.records import RECORDS, epoch_record
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.heartbeating.assigning import TargetWork
from trimaran.broker.groups.heartbeating.group import FIRST_EPOCH
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.operation import (
    HeartbeatOperation,
    HeartbeatTimer,
    HeartbeatWork,
)
from trimaran.broker.groups.outputs import Timer
from trimaran.broker.groups.topics import metadata_hash


class ConsumerTimer(StrEnum):
    """The timers of members of the classic protocol in a consumer group, in addition to `HeartbeatTimer`."""

    CLASSIC_JOIN = "classic join"  # deadline for a rejoin by a member of the classic protocol
    CLASSIC_SYNC = "classic sync"  # deadline for the sync of that member


@dataclass(slots=True)
class GroupWork(HeartbeatWork):
    """The long-running work for one consumer group: a target, or patterns. It is created by the group's first request
    after the load of the shard.

    A target is computed in pieces, on a timer of the group, and patterns are matched in a thread, so that the event
    loop is never blocked for long.
    """

    target: TargetWork[Partitions] | None = None
    # The patterns to resolve, each with the rights of the member that sent it, and whether a task is resolving them.
    regexes: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    resolving: bool = False
    # The version of the metadata for which the group's hash was last checked.
    checked_topics: object = None
    # By pattern: the version of the metadata and the time (wall clock, ms) of the last check.
    checked_regexes: dict[str, tuple[object, int]] = field(default_factory=dict)


@dataclass(slots=True)
class ConsumerOperation(
    HeartbeatOperation[ConsumerGroup, ConsumerMember, ConsumerGroupSettings, GroupWork]
):
    """One input to a consumer group."""

    RECORDS = RECORDS
    MEMBER_TIMERS: ClassVar[tuple[str, ...]] = (
        Timer.SESSION,
        HeartbeatTimer.REVOCATION,
        ConsumerTimer.CLASSIC_JOIN,
        ConsumerTimer.CLASSIC_SYNC,
    )

    def begin(self) -> None:
        """Writes the first epoch of a new group: no partition is assigned, but members have a valid epoch."""
        self.write([epoch_record(self.group.id, FIRST_EPOCH, 0)])
        self.write_assignment_epoch(FIRST_EPOCH, 0)

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members or topics: the target must be recomputed."""
        topics = metadata_hash(self.group.subscribed_topics(), self.topics)
        epoch = max(FIRST_EPOCH, self.group.epoch) + 1
        self.write([epoch_record(self.group.id, epoch, topics)])

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Restarts the member's session; a member of the classic protocol has chosen the session timeout."""
        classic = member.classic
        timeout_ms = (classic or self.settings).session_timeout_ms
        self.set_timer(Timer.SESSION, timeout_ms, member.id)

    def revocation_ms(self, member: ConsumerMember) -> int | None:
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        is_timed = is_revoking and not member.uses_classic_protocol
        return member.rebalance_timeout_ms if is_timed else None
