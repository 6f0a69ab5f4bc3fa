"""Decides when to recompute the target of a share group, and writes it.

Source: `GroupMetadataManager.maybeUpdateTargetAssignment` and `initializedAssignmentPending` of Kafka 4.4, its
`ShareTargetAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.heartbeating.assigning import write_targets
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.operation import ShareOperation
from trimaran.broker.groups.share.simple_assignor import SharingMember, assign_simply
from trimaran.broker.groups.topics import Topics


def assign_if_due(operation: ShareOperation) -> None:
    """Writes the target for the group's epoch, unless the last target is too recent: a later heartbeat then does so."""
    group = operation.group
    if group.assignment_epoch >= group.epoch or group.is_empty or operation.target_wait_ms:
        return
    initialized = group.known_states.initialized
    assignable = {topic_id: topic.partitions for topic_id, topic in initialized.items()}
    assignment = assign_simply(_members(group, operation.topics), assignable)
    write_targets(operation, assignment, assignment)
    operation.finish_target(group.epoch)


def _members(group: ShareGroup, topics: Topics) -> Iterator[SharingMember]:
    """Yields the assignor's input; members with equal subscriptions share one set of topic ids."""
    ids: dict[tuple[str, ...], frozenset[bytes]] = {}
    for member in group.members.values():
        names = member.subscribed_names
        if names not in ids:
            found = map(topics.find, names)
            ids[names] = frozenset(topic.id for topic in found if topic is not None)
        yield SharingMember(member.id, ids[names], group.target.get(member.id, {}))


def lacks_initialized(operation: ShareOperation) -> bool:
    """Returns whether initialized partitions of a subscribed topic are not in the target, or other partitions are."""
    group, work = operation.group, operation.work
    state = (group.target, group.states, group.name_counts)
    if work.checked_target is not None and all(map(_is, work.checked_target, state)):
        return False
    if group.is_empty or _is_pending(group):
        return not group.is_empty
    work.checked_target = state
    return False


def _is(known: object, now: object) -> bool:
    return known is now


def _is_pending(group: ShareGroup) -> bool:
    initialized = {
        topic_id: topic
        for topic_id, topic in group.known_states.initialized.items()
        if topic.name in group.name_counts
    }
    assigned: dict[bytes, set[int]] = {topic_id: set() for topic_id in initialized}
    for target in group.target.values():
        for topic_id in target.keys() & assigned.keys():
            assigned[topic_id] |= target[topic_id]
    return any(topic.partitions != assigned[topic_id] for topic_id, topic in initialized.items())
