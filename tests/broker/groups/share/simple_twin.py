"""The assignor of share groups as plain code, without pieces: the twin of `simple_assignor` in tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.share.simple_assignor import SharingMember
from trimaran.wire.identity import TopicIdPartition


def assign_at_once(
    members: Iterable[SharingMember], assignable: Mapping[bytes, Collection[int]]
) -> dict[str, Partitions]:
    """Returns the partitions of each member, by its id.

    Args:
        assignable: the partitions of each topic that may be assigned, by topic id.
    """
    members = sorted(members, key=lambda member: member.id)
    found: dict[str, dict[bytes, set[int]]] = {member.id: {} for member in members}
    topics = sorted({topic_id for member in members for topic_id in member.topics})
    is_homogeneous = all(member.topics == members[0].topics for member in members)
    for pool in [topics] if is_homogeneous else [[topic_id] for topic_id in topics]:
        partitions = [
            TopicIdPartition(topic_id, partition)
            for topic_id in pool
            for partition in sorted(assignable.get(topic_id, ()))
        ]
        subscribers = [member for member in members if pool and pool[0] in member.topics]
        if partitions and subscribers:
            for member_id, (topic_id, partition) in _shared(partitions, subscribers):
                found[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(mine) for topic_id, mine in topics_of.items()}
        for member_id, topics_of in found.items()
    }


def _shared(
    partitions: Sequence[TopicIdPartition], members: Sequence[SharingMember]
) -> Iterable[tuple[str, TopicIdPartition]]:
    """Yields each member with each of its partitions; all members subscribe to all topics of `partitions`."""
    per_partition = -(-len(members) // len(partitions))
    wanted = _shares(per_partition * len(partitions), [member.id for member in members])
    sharers: dict[TopicIdPartition, list[str]] = {partition: [] for partition in partitions}
    for member in members:
        kept = [
            partition
            for topic_id, mine in member.target.items()
            for index in mine
            if (partition := TopicIdPartition(topic_id, index)) in sharers
        ]
        kept.sort()
        for partition in kept[max(0, len(kept) - wanted[member.id]) :]:
            sharers[partition].append(member.id)
    counts = dict.fromkeys(wanted, 0)
    for partition in partitions:
        sharers[partition] = sharers[partition][-per_partition:]
        for member_id in sharers[partition]:
            counts[member_id] += 1
    _fill(sharers, per_partition, wanted, counts)
    return ((member_id, partition) for partition in partitions for member_id in sharers[partition])


def _shares(total: int, member_ids: Sequence[str]) -> dict[str, int]:
    """Splits a number into shares that differ by at most 1."""
    count = len(member_ids)
    ends = [-(-total * number // count) for number in range(count + 1)]
    return {
        member_id: ends[number + 1] - ends[number] for number, member_id in enumerate(member_ids)
    }


def _fill(
    sharers: Mapping[TopicIdPartition, list[str]],
    per_partition: int,
    wanted: Mapping[str, int],
    counts: dict[str, int],
) -> None:
    """Gives partitions with too few members to members with too few partitions, in turn."""
    unfilled = deque(member_id for member_id in wanted if counts[member_id] < wanted[member_id])
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
