"""Decides when to recompute the target of a share group, and writes it: at once for small groups, otherwise in pieces.

Source: `GroupMetadataManager.maybeUpdateTargetAssignment` and `initializedAssignmentPending` of Kafka 4.4, its
`ShareTargetAssignmentBuilder`. As in Kafka, a target waits for the interval since the last one; the first heartbeat
afterwards computes it. Intentional difference: the target of a large group is computed and written in pieces, on a
timer. The batch with the assignment's epoch is the last: a coordinator that takes over in between starts over.
"""

from __future__ import annotations

from trimaran.broker.groups.heartbeating.assigning import TargetWork, go_on, write_targets
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.work import Work, done
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.operation import ShareOperation
from trimaran.broker.groups.share.simple_assignor import (
    PIECE,
    Assignment,
    SharingMember,
    assign_simply,
)
from trimaran.broker.groups.topics import Topics
from trimaran.wire.transport.scheduling.pauses import pauses

# The members and partitions of a group whose target is computed within a heartbeat: about 5 ms.
INLINE_SIZE_MAX = 2_000

# The work of one tick of the timer, about 5 ms.
PIECES_PER_TICK = 2


def assign_if_due(operation: ShareOperation) -> None:
    """Writes the target for the group's epoch, or begins to compute it; leaves that to a later heartbeat if the last
    target is too recent.
    """
    group = operation.group
    if group.assignment_epoch >= group.epoch or group.is_empty or operation.target_wait_ms:
        return
    if operation.work.target is not None:
        return
    if size_of(group) > INLINE_SIZE_MAX:
        operation.work.target = TargetWork(group.epoch, _computing(operation))
        operation.set_timer(HeartbeatTimer.TARGET, 0)
        return
    assignment = done(_computing(operation))
    write_targets(operation, assignment, assignment)
    operation.finish_target(group.epoch)


def work_on_target(operation: ShareOperation) -> None:
    """Does the work of one tick of the timer."""
    if (target := operation.work.target) is not None:
        go_on(operation, target, PIECES_PER_TICK)


def size_of(group: ShareGroup) -> int:
    """Returns the approximate amount of work: members, and partitions that may be assigned."""
    initialized = group.known_states.initialized.values()
    return len(group.members) + sum(len(topic.partitions) for topic in initialized)


def _computing(operation: ShareOperation) -> Work[Assignment]:
    return compute_target(operation.group.draft(), operation.topics)


def compute_target(group: ShareGroup, topics: Topics) -> Work[Assignment]:
    """Computes the partitions of every member of `group`, which must not change meanwhile (use a draft)."""
    initialized = group.known_states.initialized
    assignable = {topic_id: topic.partitions for topic_id, topic in initialized.items()}
    members = yield from _members(group, topics)
    return (yield from assign_simply(members, assignable))


def _members(group: ShareGroup, topics: Topics) -> Work[list[SharingMember]]:
    """Returns the assignor's input; members with equal subscriptions share one set of topic ids."""
    ids: dict[tuple[str, ...], frozenset[bytes]] = {}
    members: list[SharingMember] = []
    pause = pauses(PIECE)
    for member in group.members.values():
        names = member.subscribed_names
        if names not in ids:
            found = map(topics.find, names)
            ids[names] = frozenset(topic.id for topic in found if topic is not None)
        members.append(SharingMember(member.id, ids[names], group.target.get(member.id, {})))
        yield from next(pause)
    return members


def lacks_initialized(operation: ShareOperation) -> bool:
    """Returns whether the target differs from the initialized partitions of the subscribed topics.

    A deleted topic does not count, because no target has it. In Kafka it does: each heartbeat increments the epoch
    until the topic's states are deleted, too.
    """
    group, work = operation.group, operation.work
    state = (group.target, group.states, group.name_counts)
    if work.checked_target is not None and all(map(_is, work.checked_target, state)):
        return False
    if group.is_empty or _is_pending(group, operation.topics):
        return not group.is_empty
    work.checked_target = state
    return False


def _is(known: object, now: object) -> bool:
    return known is now


def _is_pending(group: ShareGroup, topics: Topics) -> bool:
    initialized = {
        topic_id: topic
        for topic_id, topic in group.known_states.initialized.items()
        if topic.name in group.name_counts
    }
    assigned: dict[bytes, set[int]] = {topic_id: set() for topic_id in initialized}
    for target in group.target.values():
        for topic_id in target.keys() & assigned.keys():
            assigned[topic_id] |= target[topic_id]
    return any(
        topic.partitions != assigned[topic_id] and topics.name_of(topic_id) is not None
        for topic_id, topic in initialized.items()
    )
