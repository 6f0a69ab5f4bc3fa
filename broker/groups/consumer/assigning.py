"""Decides when a group's target is computed again, and writes it: at once if it is little work, else in pieces.

Source: `GroupMetadataManager.maybeUpdateTargetAssignment` of Kafka 4.3 (KIP-848; KIP-1263 for the interval). Different
on purpose: the target is computed when the interval is over, while Kafka waits for the next heartbeat of a member; and
large groups get their target in several batches, so that its size has no bound but that of each member's part. The
batch with the assignment's epoch is the last: a coordinator that takes over in between begins again, and no partition
has two owners, as owners and not targets decide on that.

The input of the assignor and the records of the changes follow Kafka's `TargetAssignmentBuilder`. The work comes in
pieces (`assignors.model.Work`), so that a group of 10,000 members does not hold up others.
"""

from __future__ import annotations

import logging
from collections import Counter
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
from trimaran.broker.groups.consumer.operation import FIRST_EPOCH, ConsumerOperation, TargetWork
from trimaran.broker.groups.consumer.records import assignment_epoch_record, target_record
from trimaran.broker.groups.consumer.topics import Topics
from trimaran.broker.groups.outputs import Timer

log = logging.getLogger(__name__)

# Members and partitions of a group whose target is computed within a heartbeat: some 5 ms.
INLINE_SIZE_MAX = 2_000

# The work of one tick of the timer: some 5 ms each. A record has some hundred bytes, or 4 for each partition.
PIECES_PER_TICK = 5
RECORDS_PER_TICK = 200
PARTITIONS_PER_TICK = 20_000


def assign_if_due(operation: ConsumerOperation) -> None:
    """Writes the target of the group's epoch, or sets the timer that will."""
    if not _is_due(operation):
        return
    group, wait_ms = operation.group, _wait_ms(operation)
    if wait_ms == 0 and _is_little(operation):
        operation.cancel_timer(Timer.TARGET)
        _write(operation, done(_computing(operation)), list(group.members))
        _finish(operation, group.epoch)
        return
    if group.assignment_epoch == NO_ASSIGNMENT_EPOCH:
        # Members need an epoch to be at until then.
        operation.write([assignment_epoch_record(group.id, FIRST_EPOCH, 0)])
    operation.set_timer(Timer.TARGET, wait_ms)


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
    """None after a target of the future: the clock of the broker that wrote it went ahead of ours."""
    interval_ms = operation.settings.assignment_interval_ms
    since = operation.at.now_ms - operation.group.assignment_timestamp_ms
    return max(0, interval_ms - since) if since >= 0 else 0


def work_on_target(operation: ConsumerOperation) -> None:
    """One tick of the timer."""
    work = operation.work
    if (target := work.target) is None:
        if _is_due(operation) and not _wait_ms(operation) and not _is_little(operation):
            work.target = TargetWork(operation.group.epoch, _computing(operation))
            operation.set_timer(Timer.TARGET, 0)
        else:
            assign_if_due(operation)
        return
    if target.assignment is None:
        _compute(target)
    elif _write_some(operation, target, target.assignment):
        _finish(operation, target.epoch)
        work.target = None
        assign_if_due(operation)  # members may have come and gone
        return
    operation.set_timer(Timer.TARGET, 0)


def _compute(target: TargetWork) -> None:
    try:
        for _ in range(PIECES_PER_TICK):
            next(target.computing)
    except StopIteration as stop:
        assignment: Assignment = stop.value
        target.assignment = assignment
        target.unwritten = iter(assignment)


def _write_some(operation: ConsumerOperation, target: TargetWork, assignment: Assignment) -> bool:
    """Whether that was all."""
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
    """Writes the targets that have changed, of those that are still members."""
    group = operation.group
    operation.write(
        [
            target_record(group.id, member_id, assignment[member_id])
            for member_id in member_ids
            if member_id in group.members
            and assignment[member_id] != group.target.get(member_id, _NEVER)
        ]
    )


# A member without a target gets a record, even if that is empty.
_NEVER = object()


def _finish(operation: ConsumerOperation, epoch: int) -> None:
    group = operation.group
    events.GROUP_TARGET_ASSIGNED.log(log, group=group.id, epoch=epoch, members=len(group.members))
    operation.write([assignment_epoch_record(group.id, epoch, operation.at.now_ms)])


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """Returns the assignor that most members name; among equals the first name."""
    names = (member.assignor for member in group.members.values())
    asked = Counter(name for name in names if name is not None and name in ASSIGNORS)
    if not asked:
        return default
    most = max(asked.values())
    return min(name for name, count in asked.items() if count == most)


def compute_target(group: ConsumerGroup, topics: Topics, default_assignor: str) -> Work[Assignment]:
    """The partitions of every member of `group`, which must not change meanwhile (take a draft)."""
    given = yield from _input(group, topics)
    assignor = ASSIGNORS[preferred_assignor(group, default_assignor)]
    return (yield from assignor(given))


def _input(group: ConsumerGroup, topics: Topics) -> Work[AssignmentInput]:
    """Members by their ids, so that every coordinator decides alike; with equal subscriptions they share one set of
    topic ids.
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
    """About how much there is to look at: members and partitions."""
    found = (topics.find(name) for name in group.subscribed_topics())
    return len(group.members) + sum(topic.partition_count for topic in found if topic)


UNIFORM = "uniform"
RANGE = "range"

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
