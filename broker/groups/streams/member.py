"""One member of a streams group, and its tasks.

Source: Kafka's `StreamsGroupMember`, `MemberState`. Values are immutable: a record creates a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, with_epochs
from trimaran.broker.groups.memory import MEMBER_BYTES, PARTITION_BYTES
from trimaran.broker.groups.streams.tasks import (
    NOTHING_ASSIGNED,
    ActiveTasks,
    AssignedTasks,
    TaskSet,
    task_set,
)
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import Address, GroupEpoch, TopologyEpoch
from trimaran.wire.records.streams_groups import (
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataValue,
)

# The topology epoch of a member or a group without a topology.
NO_TOPOLOGY_EPOCH = TopologyEpoch(-1)


class StreamsMemberState(IntEnum):
    """The progress of a member towards its target; the values are those of records."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # must give up tasks first
    UNRELEASED_TASKS = 3  # waits for tasks of other members
    UNKNOWN = 127  # written by a newer coordinator


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member, as given by its records. `process_id` is shared by all members of one client process; `endpoint` is the
    host and port at which others can query its state.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: TopologyEpoch = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: Address | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: GroupEpoch = JOINING_EPOCH
    previous_epoch: GroupEpoch = JOINING_EPOCH
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: AssignedTasks = NOTHING_ASSIGNED
    revoking: AssignedTasks = NOTHING_ASSIGNED

    @property
    def held_bytes(self) -> int:
        """The approximate size of the member in memory, in bytes."""
        texts = (self.id, self.client_id, self.client_host, self.instance_id, self.rack_id)
        said = sum(text_bytes(text) for text in (*texts, self.process_id) if text is not None)
        said += sum(text_bytes(key) + text_bytes(tag) for key, tag in self.client_tags.items())
        said += 0 if self.endpoint is None else text_bytes(self.endpoint.host)
        return MEMBER_BYTES + said + PARTITION_BYTES * (self.assigned.size + self.revoking.size)

    def has_tasks_of(self, other: StreamsMember) -> bool:
        """Whether the tasks of both are the same objects."""
        return self.assigned is other.assigned and self.revoking is other.revoking

    def is_reconciled_to(self, assignment_epoch: GroupEpoch) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == assignment_epoch

    # -- records

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Address(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def metadata_value(self) -> StreamsGroupMemberMetadataValue:
        endpoint = self.endpoint
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=None
            if endpoint is None
            else Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[
                KeyValue(key=key, value=tag) for key, tag in sorted(self.client_tags.items())
            ],
        )

    def with_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        try:
            state = StreamsMemberState(value.state)
        except ValueError:
            state = StreamsMemberState.UNKNOWN
        epoch = value.member_epoch
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=AssignedTasks(
                _active(value.active_tasks, epoch),
                task_set(value.standby_tasks),
                task_set(value.warmup_tasks),
            ),
            revoking=AssignedTasks(
                _active(value.active_tasks_pending_revocation, epoch),
                task_set(value.standby_tasks_pending_revocation),
                task_set(value.warmup_tasks_pending_revocation),
            ),
        )

    def current_value(self) -> StreamsGroupCurrentMemberAssignmentValue:
        assigned, revoking = self.assigned, self.revoking
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=_without_epochs(assigned.standby),
            warmup_tasks=_without_epochs(assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(revoking.active),
            standby_tasks_pending_revocation=_without_epochs(revoking.standby),
            warmup_tasks_pending_revocation=_without_epochs(revoking.warmup),
        )

    def __str__(self) -> str:
        return f"{self.id} epoch {self.epoch} {self.state.name}"


TaskIds = StreamsGroupCurrentMemberAssignmentValueTaskIds


def _active(entries: Iterable[TaskIds], member_epoch: GroupEpoch) -> ActiveTasks:
    """Converts active tasks from a record."""
    return {
        entry.subtopology_id: with_epochs(entry.partitions, entry.assignment_epochs, member_epoch)
        for entry in entries
        if entry.partitions
    }


def _with_epochs(tasks: ActiveTasks) -> list[TaskIds]:
    return [
        TaskIds(
            subtopology_id=subtopology,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for subtopology, partitions in sorted(tasks.items())
    ]


def _without_epochs(tasks: TaskSet) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]
