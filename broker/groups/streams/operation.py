"""One input to a streams group: its state, and its outcome, which consists of records and timers.

The rules (`heartbeat`, `assigning`, `fencing`) are functions that take a `StreamsOperation`; none of them waits or
reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.outputs import AwaitedResponse, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.streams.assignor import Assignment, TaskOffsets, Work
from trimaran.broker.groups.streams.configuring import ConfiguredTopology
from trimaran.broker.groups.streams.endpoints import Endpoints
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import NO_TOPOLOGY_EPOCH, StreamsMember
from trimaran.broker.groups.streams.records import current_record, epoch_record, member_record
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.groups.topics import Topics
from trimaran.wire.identity import GroupEpoch, TopologyEpoch
from trimaran.wire.messages.streams_group_topology_description_update import TopologyDescription


class StreamsTimer(StrEnum):
    """The timers of a streams group and its members, beside the session of a member."""

    REVOCATION = "revocation"  # removal of a member that has not given up its tasks
    INITIAL = "initial"  # end of the delay of a new group's first assignment
    TARGET = "target"  # next step of the group's target


@dataclass(slots=True)
class StreamsTargetWork:
    """The target of `epoch`: first computed, then written for some members at a time."""

    epoch: GroupEpoch
    computing: Work[Assignment]
    assignment: Assignment | None = None
    unwritten: Iterator[str] | None = None


@dataclass(frozen=True, slots=True)
class ReportedOffsets:
    """The offsets that a member last reported: up to which it has restored its tasks, and the ends of their
    changelogs.
    """

    reached: TaskOffsets = field(default_factory=dict)
    ends: TaskOffsets = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.reached.values())) + sum(map(len, self.ends.values()))


@dataclass(slots=True)
class StreamsGroupWork:
    """The state of one streams group that has no records. The next coordinator of the group starts over, and learns it
    from the next heartbeats.
    """

    target: StreamsTargetWork | None = None
    # The topology as configured for the topics of a version, and the hash of these topics.
    configured: ConfiguredTopology | None = None
    checked_topics: object = None
    metadata_hash: int = 0
    offsets: dict[str, ReportedOffsets] = field(default_factory=dict)
    # The member that has asked the whole application to shut down, "" for none.
    shutdown_by: str = ""
    endpoint_information_epoch: int = 0
    # The description of the topology, and its epoch; the epoch of one that was refused for good.
    description: TopologyDescription | None = None
    described_epoch: TopologyEpoch = NO_TOPOLOGY_EPOCH
    undescribed_epoch: TopologyEpoch = NO_TOPOLOGY_EPOCH
    # The time (wall clock, ms) from which another member may receive a request for it.
    description_due_ms: int = 0
    endpoints: Endpoints = field(default_factory=Endpoints)


@dataclass(frozen=True, slots=True, eq=False)
class StreamsGroupWrite(AwaitedResponse):
    """Records of a streams group that result from a timer."""

    group_id: str = ""


@dataclass(slots=True)
class StreamsOperation:
    """One input to a streams group; `group` is a draft."""

    group: StreamsGroup
    at: Instant
    timers: Timers[TimerKey]
    settings: StreamsGroupSettings
    topics: Topics
    work: StreamsGroupWork
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

    def write_member(self, member: StreamsMember) -> None:
        self.write([member_record(self.group.id, member)])

    def write_current(self, member: StreamsMember) -> None:
        self.write([current_record(self.group.id, member)])

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members or topics: the target must be recomputed."""
        self.group.epoch = GroupEpoch(self.group.epoch + 1)
        self.write([epoch_record(self.group)])

    # -- timers

    def key(self, kind: str, member_id: str = "") -> TimerKey:
        return TimerKey(kind, self.group.id, member_id)

    def has_timer(self, kind: str, member_id: str = "") -> bool:
        return self.key(kind, member_id) in self.timers

    def set_timer(self, kind: str, delay_ms: int, member_id: str = "") -> None:
        self.timers.set(self.key(kind, member_id), self.at.after_ms(delay_ms))

    def cancel_timer(self, kind: str, member_id: str = "") -> None:
        self.timers.cancel(self.key(kind, member_id))

    def expect_heartbeat(self, member_id: str) -> None:
        """Restarts the member's session."""
        self.set_timer(Timer.SESSION, self.settings.session_timeout_ms, member_id)

    def cancel_timers(self, member_id: str) -> None:
        for kind in (Timer.SESSION, StreamsTimer.REVOCATION):
            self.cancel_timer(kind, member_id)
