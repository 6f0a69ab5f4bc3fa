"""Decides when to recompute a group's target, and writes it: immediately for small groups, otherwise in pieces.

Source: `GroupMetadataManager.maybeUpdateTargetAssignment` of Kafka 4.4 (KIP-848; KIP-1263 for the interval).
Intentional differences: the target is computed when the interval is over (Kafka waits for the next heartbeat of a
member); and the target of a large group is written in several batches, so that only each member's part has a size
limit. The batch with the assignment's epoch is the last: a coordinator that takes over in between starts over. No
partition gets two owners, because ownership does not depend on targets.

The input of the assignor and the records of the changes follow Kafka's `TargetAssignmentBuilder`. The work comes in
pieces (`assignors.model.Work`), so that a group of 10,000 members does not delay others.
"""

from __future__ import annotations

from trimaran.broker.groups.consumer.assignors.model import (
    PIECE,
    AssignedMember,
    Assignment,
    AssignmentInput,
    Assignor,
)
from trimaran.broker.groups.consumer.assignors.range import assign_ranges
from trimaran.broker.groups.consumer.assignors.uniform import assign_uniformly
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.operation import ConsumerOperation
from trimaran.broker.groups.heartbeating.assigning import TargetWork, go_on, write_targets
from trimaran.broker.groups.heartbeating.group import FIRST_EPOCH, NO_ASSIGNMENT_EPOCH
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.work import Work, done
from trimaran.broker.groups.topics import Topics
from trimaran.wire.transport.scheduling.pauses import pauses

# The members and partitions of a group whose target is computed within a heartbeat: about 5 ms.
INLINE_SIZE_MAX = 2_000

# The work of one tick of the timer, about 5 ms.
PIECES_PER_TICK = 5


def assign_if_due(operation: ConsumerOperation) -> None:
    """Writes the target for the group's epoch, or sets the timer for that."""
    if not _is_due(operation):
        return
    group, wait_ms = operation.group, operation.target_wait_ms
    if wait_ms == 0 and _is_little(operation):
        operation.cancel_timer(HeartbeatTimer.TARGET)
        write_targets(operation, done(_computing(operation)), list(group.members))
        operation.finish_target(group.epoch)
        return
    if group.assignment_epoch == NO_ASSIGNMENT_EPOCH:
        # Members need a valid epoch until the first target is written.
        operation.write_assignment_epoch(FIRST_EPOCH, 0)
    operation.set_timer(HeartbeatTimer.TARGET, wait_ms)


def _is_due(operation: ConsumerOperation) -> bool:
    group = operation.group
    is_behind = group.epoch > group.assignment_epoch and not group.is_empty
    return is_behind and operation.work.target is None


def _is_little(operation: ConsumerOperation) -> bool:
    return size_of(operation.group, operation.topics) <= INLINE_SIZE_MAX


def _computing(operation: ConsumerOperation) -> Work[Assignment]:
    default = operation.settings.assignors[0]
    return compute_target(operation.group.draft(), operation.topics, default)


def work_on_target(operation: ConsumerOperation) -> None:
    """Does the work of one tick of the timer."""
    work = operation.work
    if (target := work.target) is None:
        if _is_due(operation) and not operation.target_wait_ms and not _is_little(operation):
            work.target = TargetWork(operation.group.epoch, _computing(operation))
            operation.set_timer(HeartbeatTimer.TARGET, 0)
        else:
            assign_if_due(operation)
        return
    if go_on(operation, target, PIECES_PER_TICK):
        assign_if_due(operation)  # members may have changed


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """Returns the assignor that most members prefer; in a tie, the first name in alphabetical order."""
    asked = {name: count for name, count in group.assignor_counts.items() if name in ASSIGNORS}
    if not asked:
        return default
    most = max(asked.values())
    return min(name for name, count in asked.items() if count == most)


def compute_target(group: ConsumerGroup, topics: Topics, default_assignor: str) -> Work[Assignment]:
    """Computes the partitions of every member of `group`, which must not change meanwhile (use a draft)."""
    given = yield from _input(group, topics)
    assignor = ASSIGNORS[preferred_assignor(group, default_assignor)]
    return (yield from assignor(given))


def _input(group: ConsumerGroup, topics: Topics) -> Work[AssignmentInput]:
    """Returns the assignor's input. Members are sorted by id, so that all coordinators decide alike; members with equal
    subscriptions share one set of topic ids.
    """
    ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    members: list[AssignedMember] = []
    pause = pauses(PIECE)
    for member_id in sorted(group.members):
        member = group.members[member_id]
        subscription = (member.subscribed_names, member.regex)
        if subscription not in ids:
            found = [topics.find(name) for name in group.topics_of(member)]
            counts.update((topic.id, topic.partition_count) for topic in found if topic)
            ids[subscription] = frozenset(topic.id for topic in found if topic)
        target = group.target.get(member.id, {})
        members.append(AssignedMember(member.id, ids[subscription], target, member.instance_id))
        yield from next(pause)
    return AssignmentInput(tuple(members), counts)


def size_of(group: ConsumerGroup, topics: Topics) -> int:
    """Returns the approximate amount of work: members and partitions."""
    found = (topics.find(name) for name in group.subscribed_topics())
    return len(group.members) + sum(topic.partition_count for topic in found if topic)


UNIFORM = "uniform"
RANGE = "range"

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
