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

import logging
from itertools import islice

from trimaran.broker import events
from trimaran.broker.groups.consumer.assignors.model import (
    PIECE,
    AssignedMember,
    Assignment,
    AssignmentInput,
    Assignor,
    Work,
    done,
)
from trimaran.broker.groups.consumer.assignors.range import assign_ranges
from trimaran.broker.groups.consumer.assignors.uniform import assign_uniformly
from trimaran.broker.groups.consumer.group import NO_ASSIGNMENT_EPOCH, ConsumerGroup
from trimaran.broker.groups.consumer.operation import (
    FIRST_EPOCH,
    ConsumerOperation,
    ConsumerTimer,
    TargetWork,
)
from trimaran.broker.groups.consumer.records import assignment_epoch_record, target_record
from trimaran.broker.groups.topics import Topics
from trimaran.wire.identity import GroupEpoch

log = logging.getLogger(__name__)

# The members and partitions of a group whose target is computed within a heartbeat: about 5 ms.
INLINE_SIZE_MAX = 2_000

# The work of one tick of the timer, about 5 ms each. A record has a few hundred bytes, or 4 for each partition.
PIECES_PER_TICK = 5
RECORDS_PER_TICK = 200
PARTITIONS_PER_TICK = 20_000


def assign_if_due(operation: ConsumerOperation) -> None:
    """Writes the target for the group's epoch, or sets the timer that will."""
    if not _is_due(operation):
        return
    group, wait_ms = operation.group, _wait_ms(operation)
    if wait_ms == 0 and _is_little(operation):
        operation.cancel_timer(ConsumerTimer.TARGET)
        _write(operation, done(_computing(operation)), list(group.members))
        _finish(operation, group.epoch)
        return
    if group.assignment_epoch == NO_ASSIGNMENT_EPOCH:
        # Members need a valid epoch until then.
        operation.write([assignment_epoch_record(group.id, FIRST_EPOCH, 0)])
    operation.set_timer(ConsumerTimer.TARGET, wait_ms)


def _is_due(operation: ConsumerOperation) -> bool:
    group = operation.group
    is_behind = group.epoch > group.assignment_epoch and not group.is_empty
    return is_behind and operation.work.target is None


def _is_little(operation: ConsumerOperation) -> bool:
    return size_of(operation.group, operation.topics) <= INLINE_SIZE_MAX


def _computing(operation: ConsumerOperation) -> Work[Assignment]:
    default = operation.settings.assignors[0]
    return compute_target(operation.group.draft(), operation.topics, default)


def _wait_ms(operation: ConsumerOperation) -> int:
    """Returns the time until the next target is due. Returns 0 if the last target is from the future, because the clock
    of the broker that wrote it was ahead.
    """
    interval_ms = operation.settings.assignment_interval_ms
    since = operation.at.now_ms - operation.group.assignment_timestamp_ms
    return max(0, interval_ms - since) if since >= 0 else 0


def work_on_target(operation: ConsumerOperation) -> None:
    """Does the work of one tick of the timer."""
    work = operation.work
    if (target := work.target) is None:
        if _is_due(operation) and not _wait_ms(operation) and not _is_little(operation):
            work.target = TargetWork(operation.group.epoch, _computing(operation))
            operation.set_timer(ConsumerTimer.TARGET, 0)
        else:
            assign_if_due(operation)
        return
    if target.assignment is None:
        _compute(target)
    elif _write_some(operation, target, target.assignment):
        _finish(operation, target.epoch)
        work.target = None
        assign_if_due(operation)  # members may have changed
        return
    operation.set_timer(ConsumerTimer.TARGET, 0)


def _compute(target: TargetWork) -> None:
    try:
        for _ in range(PIECES_PER_TICK):
            next(target.computing)
    except StopIteration as stop:
        assignment: Assignment = stop.value
        target.assignment = assignment
        target.unwritten = iter(assignment)


def _write_some(operation: ConsumerOperation, target: TargetWork, assignment: Assignment) -> bool:
    """Writes the next targets. Returns whether all have been written."""
    assert target.unwritten is not None
    partitions, member_ids = 0, []
    for member_id in islice(target.unwritten, RECORDS_PER_TICK):
        member_ids.append(member_id)
        partitions += sum(map(len, assignment[member_id].values()))
        if partitions > PARTITIONS_PER_TICK:
            break
    _write(operation, assignment, member_ids)
    return not member_ids


def _write(operation: ConsumerOperation, assignment: Assignment, member_ids: list[str]) -> None:
    """Writes the changed targets of the current members."""
    group = operation.group
    operation.write(
        [
            target_record(group.id, member_id, assignment[member_id])
            for member_id in member_ids
            if member_id in group.members
            and assignment[member_id] != group.target.get(member_id, _NEVER)
        ]
    )


# A member without a target always gets a record, even for an empty target.
_NEVER = object()


def _finish(operation: ConsumerOperation, epoch: GroupEpoch) -> None:
    group = operation.group
    events.GROUP_TARGET_ASSIGNED.log(log, group=group.id, epoch=epoch, members=len(group.members))
    operation.write([assignment_epoch_record(group.id, epoch, operation.at.now_ms)])


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
    for number, member_id in enumerate(sorted(group.members)):
        member = group.members[member_id]
        subscription = (member.subscribed_names, member.regex)
        if subscription not in ids:
            found = [topics.find(name) for name in group.topics_of(member)]
            counts.update((topic.id, topic.partition_count) for topic in found if topic)
            ids[subscription] = frozenset(topic.id for topic in found if topic)
        target = group.target.get(member.id, {})
        members.append(AssignedMember(member.id, ids[subscription], target, member.instance_id))
        if number % PIECE == PIECE - 1:
            yield
    return AssignmentInput(tuple(members), counts)


def size_of(group: ConsumerGroup, topics: Topics) -> int:
    """Returns the approximate amount of work: members and partitions."""
    found = (topics.find(name) for name in group.subscribed_topics())
    return len(group.members) + sum(topic.partition_count for topic in found if topic)


UNIFORM = "uniform"
RANGE = "range"

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
