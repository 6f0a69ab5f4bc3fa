"""One input to a streams group, and its state that has no records."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from trimaran.broker.groups.heartbeating.assigning import TargetWork
from trimaran.broker.groups.heartbeating.operation import (
    HeartbeatOperation,
    HeartbeatTimer,
    HeartbeatWork,
)
from trimaran.broker.groups.outputs import Timer
from trimaran.broker.groups.streams.assignor import TaskOffsets
from trimaran.broker.groups.streams.configuring import ConfiguredTopology
from trimaran.broker.groups.streams.endpoints import Endpoints
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import (
    NO_TOPOLOGY_EPOCH,
    StreamsMember,
    StreamsMemberState,
)
from trimaran.broker.groups.streams.records import RECORDS, epoch_record
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.groups.streams.tasks import MemberTasks
from trimaran.wire.identity import INITIAL_ENDPOINT_EPOCH, EndpointEpoch, GroupEpoch, TopologyEpoch
from trimaran.wire.messages.streams_group_topology_description_update import TopologyDescription


class StreamsTimer(StrEnum):
    """The timers of a streams group, in addition to `HeartbeatTimer`."""

    INITIAL = "initial"  # end of the delay of a new group's first assignment


@dataclass(frozen=True, slots=True)
class ReportedOffsets:
    """The offsets that a member last reported: the offsets up to which it has restored its tasks, and the ends of their
    changelogs.
    """

    reached: TaskOffsets = field(default_factory=dict)
    ends: TaskOffsets = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.reached.values())) + sum(map(len, self.ends.values()))


@dataclass(slots=True)
class StreamsGroupWork(HeartbeatWork):
    """The state of one streams group that has no records. The next coordinator gets it from the next heartbeats."""

    target: TargetWork[MemberTasks] | None = None
    # The topology as configured for the topics of a version, and the hash of these topics.
    configured: ConfiguredTopology | None = None
    checked_topics: object = None
    metadata_hash: int = 0
    offsets: dict[str, ReportedOffsets] = field(default_factory=dict)
    # The member that has requested the shutdown of the whole application, "" for none.
    shutdown_by: str = ""
    endpoint_information_epoch: EndpointEpoch = INITIAL_ENDPOINT_EPOCH
    # The description of the topology, and its epoch; the epoch of a topology whose description was permanently refused.
    description: TopologyDescription | None = None
    described_epoch: TopologyEpoch = NO_TOPOLOGY_EPOCH
    undescribed_epoch: TopologyEpoch = NO_TOPOLOGY_EPOCH
    # The time (wall clock, ms) from which the description may be requested from another member.
    description_due_ms: int = 0
    endpoints: Endpoints = field(default_factory=Endpoints)


@dataclass(slots=True)
class StreamsOperation(
    HeartbeatOperation[StreamsGroup, StreamsMember, StreamsGroupSettings, StreamsGroupWork]
):
    """One input to a streams group. The rules (`heartbeat`, `assigning`, `fencing`) are functions that take it; none of
    them waits or reads a clock.
    """

    RECORDS = RECORDS
    MEMBER_TIMERS: ClassVar[tuple[str, ...]] = (Timer.SESSION, HeartbeatTimer.REVOCATION)

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members or topics: the target must be recomputed."""
        self.group.epoch = GroupEpoch(self.group.epoch + 1)
        self.write([epoch_record(self.group)])

    def revocation_ms(self, member: StreamsMember) -> int | None:
        is_revoking = member.state is StreamsMemberState.UNREVOKED_TASKS
        return member.rebalance_timeout_ms if is_revoking else None
