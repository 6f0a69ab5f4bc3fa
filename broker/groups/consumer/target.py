"""The target assignment of a group: the assignor's input, and the records of what has changed.

Source: Kafka's `TargetAssignmentBuilder`. The work comes in pieces (`assignors.model.Work`), so that a group of
10,000 members does not hold up others.
"""

from __future__ import annotations

from collections import Counter

from trimaran.broker.groups.consumer.assignors.model import (
    PIECE,
    AssignedMember,
    Assignment,
    AssignmentInput,
    Assignor,
    Work,
)
from trimaran.broker.groups.consumer.assignors.range import assign_ranges
from trimaran.broker.groups.consumer.assignors.uniform import assign_uniformly
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.topics import Topics


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
