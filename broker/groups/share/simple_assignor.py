"""The assignor of share groups, "simple": members share partitions evenly, and keep those that they have.

Each partition has the same number of members: the smallest with which every member has a partition. The partitions of
all topics are shared at once if all members subscribe to the same topics, otherwise topic by topic. The work comes in
pieces, so that a group with 100,000 partitions does not delay others. Source: Kafka's `SimpleAssignor`,
`SimpleHomogeneousAssignmentBuilder`, `SimpleHeterogeneousAssignmentBuilder`. Intentional differences: members and
partitions have the order of their ids, not that of Java's hash tables, so that all coordinators decide alike; a member
does not keep partitions that it may not have; and a partition that every unfilled member already has does not end the
distribution of the other partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.work import Work
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.transport.scheduling.pauses import Pauses, pauses

# The number of partitions or members processed between two yields: about a millisecond.
PIECE = 1_000

Assignment = dict[str, Partitions]
"""The partitions by member id."""

Sharers = dict[TopicIdPartition, list[str]]
"""The ids of the members of each partition."""


@dataclass(frozen=True, slots=True)
class SharingMember:
    """A member as seen by the assignor: the ids of its subscribed topics, and its current target."""

    id: str
    topics: frozenset[bytes]
    target: Partitions = field(default_factory=dict)


def assign_simply(
    members: Iterable[SharingMember], assignable: Mapping[bytes, Collection[int]]
) -> Work[Assignment]:
    """Computes the partitions of each member, by its id.

    Args:
        assignable: the partitions of each topic that may be assigned, by topic id.
    """
    members = sorted(members, key=lambda member: member.id)
    subscriptions = {member.topics for member in members}
    topics = sorted(frozenset[bytes]().union(*subscriptions))
    found: dict[str, dict[bytes, set[int]]] = {member.id: {} for member in members}
    for pool in [topics] if len(subscriptions) == 1 else [[topic_id] for topic_id in topics]:
        yield
        sharers = yield from _unshared(pool, assignable)
        subscribers = [member for member in members if pool and pool[0] in member.topics]
        if sharers and subscribers:
            yield from _share(sharers, frozenset(pool), subscribers)
            yield from _add(found, sharers)
    return {
        member_id: {topic_id: frozenset(mine) for topic_id, mine in topics_of.items()}
        for member_id, topics_of in found.items()
    }


def _unshared(pool: Sequence[bytes], assignable: Mapping[bytes, Collection[int]]) -> Work[Sharers]:
    """Returns the assignable partitions of the topics, in order, each without members yet."""
    sharers: Sharers = {}
    pause = pauses(PIECE)
    for topic_id in pool:
        for index in sorted(assignable.get(topic_id, ())):
            sharers[TopicIdPartition(topic_id, index)] = []
            yield from next(pause)
    return sharers


def _share(
    sharers: Sharers, topics: frozenset[bytes], members: Sequence[SharingMember]
) -> Work[None]:
    """Shares all partitions; all members subscribe to all `topics`."""
    per_partition = -(-len(members) // len(sharers))
    wanted = _shares(per_partition * len(sharers), [member.id for member in members])
    counts = dict.fromkeys(wanted, 0)
    pause = pauses(PIECE)
    for member in members:
        kept = yield from _known(member, topics, sharers, pause)
        for partition in kept[max(0, len(kept) - wanted[member.id]) :]:
            sharers[partition].append(member.id)
            yield from next(pause)
        yield from next(pause)
    for mine in sharers.values():
        del mine[:-per_partition]
        for member_id in mine:
            counts[member_id] += 1
        yield from next(pause)
    yield from _fill(sharers, per_partition, wanted, counts)


def _known(
    member: SharingMember, topics: frozenset[bytes], sharers: Sharers, pause: Pauses
) -> Work[list[TopicIdPartition]]:
    """Returns the partitions of a member's target that may be assigned, in order."""
    few = min(topics, member.target, key=len)
    kept: list[TopicIdPartition] = []
    for topic_id in sorted(one for one in few if one in topics and one in member.target):
        for index in sorted(member.target[topic_id]):
            if (partition := TopicIdPartition(topic_id, index)) in sharers:
                kept.append(partition)
            yield from next(pause)
    return kept


def _add(found: Mapping[str, dict[bytes, set[int]]], sharers: Sharers) -> Work[None]:
    """Adds the partitions of `sharers` to the assignments of their members."""
    pause = pauses(PIECE)
    for (topic_id, index), member_ids in sharers.items():
        for member_id in member_ids:
            found[member_id].setdefault(topic_id, set()).add(index)
            yield from next(pause)


def _shares(total: int, member_ids: Sequence[str]) -> dict[str, int]:
    """Splits a number into shares that differ by at most 1."""
    count = len(member_ids)
    ends = [-(-total * number // count) for number in range(count + 1)]
    return {
        member_id: ends[number + 1] - ends[number] for number, member_id in enumerate(member_ids)
    }


def _fill(
    sharers: Sharers, per_partition: int, wanted: Mapping[str, int], counts: dict[str, int]
) -> Work[None]:
    """Gives partitions with too few members to members with too few partitions, in turn."""
    unfilled = deque(member_id for member_id in wanted if counts[member_id] < wanted[member_id])
    pause = pauses(PIECE)
    for mine in sharers.values():
        for _ in range(len(unfilled)):
            if len(mine) >= per_partition:
                break
            member_id = unfilled.popleft()
            if member_id not in mine:
                mine.append(member_id)
                counts[member_id] += 1
            if counts[member_id] < wanted[member_id]:
                unfilled.append(member_id)
        yield from next(pause)
