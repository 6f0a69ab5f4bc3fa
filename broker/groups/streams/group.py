"""A streams group, as given by its records: epochs, topology, members, the target, and the holders of tasks.

Source: Kafka's `StreamsGroup` (KIP-1071). Intentional difference: tasks are stored with the ids of the members that
hold them, not with process ids, so that records of a compacted log may be applied in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from immutables import Map

from trimaran.broker.groups.heartbeating.group import FIRST_EPOCH, HeartbeatGroup
from trimaran.broker.groups.streams.member import NO_TOPOLOGY_EPOCH, StreamsMember
from trimaran.broker.groups.streams.tasks import (
    AssignedTasks,
    MemberTasks,
    Task,
    TaskSet,
    task_set,
)
from trimaran.broker.groups.streams.topology import Topology
from trimaran.wire.identity import TopologyEpoch
from trimaran.wire.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from trimaran.wire.schema import Message

NO_DESCRIPTION_EPOCH = TopologyEpoch(-1)
"""The epoch of the stored topology description if there is none."""


class StreamsGroupState(Enum):
    """The states of a group; the values are those of Kafka's protocol."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics of the topology are missing or wrong
    ASSIGNING = "Assigning"  # the target is older than the group
    RECONCILING = "Reconciling"  # members are reconciling
    STABLE = "Stable"
    DEAD = "Dead"


class Described(NamedTuple):
    """The topology epochs whose description is stored, or was permanently refused (KIP-1331)."""

    stored: TopologyEpoch = NO_DESCRIPTION_EPOCH
    failed: TopologyEpoch = NO_DESCRIPTION_EPOCH


Holders = Map[str, Mapping[int, frozenset[str]]]
"""The members that hold tasks, by subtopology and partition; no subtopology without any. A subtopology is replaced as a
whole: one member may hold 40,000 tasks.
"""

H = TypeVar("H", bound=Mapping[int, Any])

NOBODY: Mapping[int, Any] = {}


class StreamsGroup(HeartbeatGroup[StreamsMember, MemberTasks]):
    """A streams group. Invariants: an active task has at most one holder; `instances` maps to members."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, FIRST_EPOCH, FIRST_EPOCH)
        self.validated_topology_epoch = NO_TOPOLOGY_EPOCH
        self.assignment_configs: Mapping[str, str] = {}
        self.described = Described()
        self.topology: Topology | None = None
        self.instances: Map[str, str] = Map()
        self.active: Map[str, Mapping[int, str]] = Map()
        self.standby: Holders = Map()
        self.warmup: Holders = Map()

    # -- queries

    @property
    def is_gone(self) -> bool:
        return super().is_gone and self.topology is None

    @property
    def topology_epoch(self) -> TopologyEpoch:
        return NO_TOPOLOGY_EPOCH if self.topology is None else self.topology.epoch

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group; checks every member, since only administrators request it."""
        if self.is_empty:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        member_id = self.instances.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.is_empty or self.topology is None:
            return False
        return topic in self.topology.subtopology_of_source

    def active_process(self, task: Task) -> str | None:
        """Returns the process that runs the task, or must still give it up."""
        holder = self.active.get(task.subtopology, NOBODY).get(task.partition)
        return None if holder is None else self._process_of(holder)

    def standby_processes(self, task: Task) -> frozenset[str]:
        """Returns the processes that hold the task as a standby, or must still give it up."""
        return self._processes_of(self.standby, task)

    def warmup_processes(self, task: Task) -> frozenset[str]:
        """Returns the processes that hold the task as a warm-up task, or must still give it up."""
        return self._processes_of(self.warmup, task)

    def _processes_of(self, holders: Holders, task: Task) -> frozenset[str]:
        found = holders.get(task.subtopology, NOBODY).get(task.partition, ())
        return frozenset(map(self._process_of, found)) if found else frozenset()

    def active_partitions(self, subtopology: str) -> AbstractSet[int]:
        """Returns the partitions of the subtopology whose tasks have an `active_process`."""
        return self.active.get(subtopology, NOBODY).keys()

    def held_partitions(self, subtopology: str) -> set[int]:
        """Returns the partitions of the subtopology whose tasks any member holds, in any role."""
        return {
            *self.active.get(subtopology, NOBODY),
            *self.standby.get(subtopology, NOBODY),
            *self.warmup.get(subtopology, NOBODY),
        }

    def _process_of(self, member_id: str) -> str:
        member = self.members.get(member_id)
        return "" if member is None else member.process_id

    # -- records

    def apply(self, key: Message, value: Message | None) -> None:
        if isinstance(key, StreamsGroupMetadataKey):
            self._apply_epoch(value)
        elif isinstance(key, StreamsGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            self._apply_current(key.member_id, value)
        elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            self._apply_target(key.member_id, _target(value))
        elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            self._apply_assignment_epoch(value)
        elif isinstance(key, StreamsGroupTopologyKey):
            self._apply_topology(value)

    def _apply_epoch(self, value: Message | None) -> None:
        self.has_epoch = value is not None
        if isinstance(value, StreamsGroupMetadataValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.validated_topology_epoch = value.validated_topology_epoch
            configs = value.last_assignment_configs or ()
            self.assignment_configs = {config.key: config.value for config in configs}
            self.described = Described(
                value.stored_description_topology_epoch, value.failed_description_topology_epoch
            )

    def _apply_topology(self, value: Message | None) -> None:
        self.held_bytes -= 0 if self.topology is None else self.topology.bytes
        is_known = isinstance(value, StreamsGroupTopologyValue)
        self.topology = Topology(value) if is_known else None  # type: ignore[arg-type]
        self.held_bytes += 0 if self.topology is None else self.topology.bytes

    def _apply_member(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or StreamsMember(member_id)
        if isinstance(value, StreamsGroupMemberMetadataValue):
            self._put(known.with_metadata(value))
        else:
            self._drop(member_id)

    def _apply_current(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or StreamsMember(member_id)
        if isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
            self._put(known.with_current(value))
        elif member_id in self.members:
            none = AssignedTasks()
            self._put(replace(known, assigned=none, revoking=none))

    def target_size(self, target: MemberTasks) -> int:
        return sum(sum(map(len, role.values())) for role in target)

    # -- members

    def _changed(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        if old is not None:
            self._forget_instance(old)
        if new is not None and new.instance_id is not None:
            self.instances = self.instances.set(new.instance_id, new.id)
        has_same = old is not None and new is not None and old.has_tasks_of(new)
        if old is not None and not has_same:
            self._release(old)
        if new is not None and not has_same:
            self._hold(new)

    def _hold(self, member: StreamsMember) -> None:
        for tasks in (member.assigned, member.revoking):
            for subtopology, mine in tasks.active.items():
                known = self.active.get(subtopology, NOBODY)
                held = {**known, **dict.fromkeys(mine, member.id)}
                self.active = self.active.set(subtopology, held)
            self.standby = _with(self.standby, tasks.standby, member.id)
            self.warmup = _with(self.warmup, tasks.warmup, member.id)

    def _forget_instance(self, member: StreamsMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member.id:
            self.instances = self.instances.delete(instance_id)

    def _release(self, member: StreamsMember) -> None:
        for tasks in (member.assigned, member.revoking):
            for subtopology, mine in tasks.active.items():
                # A task may already have its next holder.
                left = {
                    partition: holder
                    for partition, holder in self.active.get(subtopology, NOBODY).items()
                    if holder != member.id or partition not in mine
                }
                self.active = _put(self.active, subtopology, left)
            self.standby = _without(self.standby, tasks.standby, member.id)
            self.warmup = _without(self.warmup, tasks.warmup, member.id)


def _put(holders: Map[str, H], subtopology: str, left: H) -> Map[str, H]:
    if left:
        return holders.set(subtopology, left)
    return holders.delete(subtopology) if subtopology in holders else holders


def _with(holders: Holders, tasks: TaskSet, member_id: str) -> Holders:
    for subtopology, mine in tasks.items():
        known = holders.get(subtopology, NOBODY)
        one = frozenset((member_id,))
        held = {
            partition: known[partition] | one if partition in known else one for partition in mine
        }
        holders = holders.set(subtopology, {**known, **held})
    return holders


def _without(holders: Holders, tasks: TaskSet, member_id: str) -> Holders:
    for subtopology, mine in tasks.items():
        gone = {member_id}
        left = {
            partition: held - gone if partition in mine else held
            for partition, held in holders.get(subtopology, NOBODY).items()
            if partition not in mine or held != gone
        }
        holders = _put(holders, subtopology, left)
    return holders


def _target(value: Message | None) -> MemberTasks | None:
    if isinstance(value, StreamsGroupTargetAssignmentMemberValue):
        return MemberTasks(
            task_set(value.active_tasks),
            task_set(value.standby_tasks),
            task_set(value.warmup_tasks),
        )
    return None
