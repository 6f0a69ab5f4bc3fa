"""Decides when to recompute a group's target, and writes it: at once for small groups, otherwise in pieces.

Source: `GroupMetadataManager.maybeUpdateStreamsTargetAssignment`, `TargetAssignmentBuilder`. As in Kafka, a target
waits for the initial delay of a new group, and for the interval since the last one; the first heartbeat afterwards
computes it. Intentional difference: the target of a large group is computed and written in pieces, on a timer; until
then heartbeats have the status ASSIGNMENT_DELAYED. The batch with the assignment's epoch is the last: a coordinator
that takes over in between starts over.

Kafka 4.4 refines a target by warm-up tasks for members that lag behind, but its refiner returns the target unchanged.
Therefore there are no warm-up tasks, regardless of `streams.num.warmup.replicas`.
"""

from __future__ import annotations

from trimaran.broker.groups.heartbeating.assigning import TargetWork, go_on, write_targets
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.work import Work, done
from trimaran.broker.groups.streams.assignor import (
    AssignedSubtopology,
    Assignment,
    TaskMember,
    assign,
)
from trimaran.broker.groups.streams.configuring import ConfiguredTopology, GroupProblem, Status
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.operation import (
    ReportedOffsets,
    StreamsOperation,
    StreamsTimer,
)
from trimaran.broker.groups.streams.tasks import MemberTasks

# The members and tasks of a group whose target is computed within a heartbeat: about 10 ms.
INLINE_SIZE_MAX = 2_000

# The work of one tick of the timer, about 5 ms.
PIECES_PER_TICK = 1

_FOR_NEW_GROUP = GroupProblem(
    Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
_FOR_INTERVAL = GroupProblem(
    Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
)
_FOR_SIZE = GroupProblem(
    Status.ASSIGNMENT_DELAYED, "Assignment delayed while it is being computed."
)


def assign_if_due(operation: StreamsOperation, topology: ConfiguredTopology) -> GroupProblem | None:
    """Writes the target for the group's epoch if it is due; returns the reason for a delay, if any."""
    group = operation.group
    if operation.has_timer(StreamsTimer.INITIAL):
        return _FOR_NEW_GROUP
    if group.epoch <= group.assignment_epoch:
        return None
    if operation.work.target is not None:
        return _FOR_SIZE
    if operation.target_wait_ms:
        return _FOR_INTERVAL
    if size_of(group, topology) > INLINE_SIZE_MAX:
        operation.work.target = TargetWork(group.epoch, _computing(operation, topology))
        operation.set_timer(HeartbeatTimer.TARGET, 0)
        return _FOR_SIZE
    write_targets(operation, done(_computing(operation, topology)), list(group.members))
    operation.finish_target(group.epoch)
    return None


def delay_over(operation: StreamsOperation) -> None:
    """Writes the first target of a new group after its members have had time to join. A group whose members have left
    has its target already (`fencing.remove`).
    """
    if (topology := operation.work.configured) is not None:
        assign_if_due(operation, topology)


def work_on_target(operation: StreamsOperation) -> None:
    """Does the work of one tick of the timer."""
    if (target := operation.work.target) is not None:
        go_on(operation, target, PIECES_PER_TICK)


def _computing(operation: StreamsOperation, topology: ConfiguredTopology) -> Work[Assignment]:
    standbys = int(operation.group.assignment_configs.get("num.standby.replicas", "0"))
    return compute_target(operation.group.draft(), topology, standbys, dict(operation.work.offsets))


def compute_target(
    group: StreamsGroup,
    topology: ConfiguredTopology,
    standbys: int,
    offsets: dict[str, ReportedOffsets],
) -> Work[Assignment]:
    """Computes the tasks of every member of `group`, which must not change meanwhile (use a draft). Without a topology
    that can run there are none.
    """
    if not topology.is_ready or not topology.subtopologies:
        return dict.fromkeys(group.members, MemberTasks())
    members = []
    for member in group.members.values():
        mine = member.assigned.without_epochs()
        reached = offsets.get(member.id, ReportedOffsets()).reached
        members.append(TaskMember(member.id, member.process_id, mine.active, mine.standby, reached))
    yield
    subtopologies = [
        AssignedSubtopology(one, found.task_count, found.is_stateful)
        for one, found in topology.subtopologies.items()
    ]
    return (yield from assign(members, subtopologies, standbys))


def size_of(group: StreamsGroup, topology: ConfiguredTopology) -> int:
    """Returns the approximate amount of work: members, and tasks with their standbys."""
    standbys = int(group.assignment_configs.get("num.standby.replicas", "0"))
    tasks = sum(one.task_count for one in (topology.subtopologies or {}).values())
    return len(group.members) + tasks * (1 + standbys)
