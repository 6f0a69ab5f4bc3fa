"""The uniform assignor: members get equal numbers of partitions, and keep their current ones if possible.

If all members subscribe to the same topics, the numbers differ by at most one, and no partition moves without need.
Otherwise partitions first go to the subscriber with the fewest, and then from the fullest to the emptiest subscriber of
a topic, as long as this improves the balance. Source: Kafka's `UniformHomogeneousAssignmentBuilder` and
`UniformHeterogeneousAssignmentBuilder`. Intentional difference: members that already have one partition more than the
rest keep it; Kafka gives it to the first members in the order of a hash map.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable

from trimaran.broker.groups.consumer.assignors.model import (
    PIECE,
    AssignedMember,
    Assignment,
    AssignmentInput,
)
from trimaran.broker.groups.heartbeating.work import Work
from trimaran.node.runtime.steps import pieces
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.transport.scheduling.pauses import pauses

# As in Kafka: with overlapping but unequal subscriptions, each round roughly halves the imbalance.
ROUNDS_MAX = 16


def assign_uniformly(given: AssignmentInput) -> Work[Assignment]:
    owned = yield from _kept(given)
    if given.is_homogeneous:
        yield from _fill_quotas(given, owned)
    else:
        yield from _Balancer(given, owned).run()
    assignment: Assignment = {}
    pause = pauses(PIECE)
    for member_id, partitions in owned.items():
        assignment[member_id] = _by_topic(partitions)
        yield from next(pause)
    return assignment


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, frozenset[int]]:
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in partitions:
        found[topic_id].append(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


def _kept(given: AssignmentInput) -> Work[dict[str, list[TopicIdPartition]]]:
    """Returns the partitions that each member keeps: only of subscribed topics, only partitions that exist, and each
    partition for one member.
    """
    taken: set[TopicIdPartition] = set()
    owned: dict[str, list[TopicIdPartition]] = {}
    pause = pauses(PIECE)
    for member in given.members:
        mine = owned[member.id] = []
        for topic_id, partitions in member.target.items():
            if topic_id not in member.topics:
                continue
            count = given.topics[topic_id]
            for partition in sorted(partitions):
                if partition < count and (topic_id, partition) not in taken:
                    taken.add(TopicIdPartition(topic_id, partition))
                    mine.append(TopicIdPartition(topic_id, partition))
                yield from next(pause)
        yield from next(pause)
    return owned


def _unassigned(
    topics: Iterable[tuple[bytes, int]], owned: dict[str, list[TopicIdPartition]]
) -> Work[list[TopicIdPartition]]:
    taken: set[TopicIdPartition] = set()
    pause = pauses(PIECE)
    for partitions in owned.values():
        taken.update(partitions)
        yield from next(pause)
    left: list[TopicIdPartition] = []
    for topic_id, count in topics:
        for some in pieces(range(count), PIECE):
            left += [TopicIdPartition(topic_id, p) for p in some if (topic_id, p) not in taken]
            yield
    return left


# -- equal subscriptions


def _fill_quotas(given: AssignmentInput, owned: dict[str, list[TopicIdPartition]]) -> Work[None]:
    topics = sorted((topic_id, given.topics[topic_id]) for topic_id in given.members[0].topics)
    quota, extra = divmod(sum(count for _, count in topics), len(given.members))
    # The members with the most partitions keep the extra ones.
    by_count = sorted(given.members, key=lambda member: -len(owned[member.id]))
    quotas: list[tuple[AssignedMember, int]] = []
    pause = pauses(PIECE)
    for number, member in enumerate(by_count):
        quotas.append((member, quota + (number < extra)))
        del owned[member.id][quotas[-1][1] :]
        yield from next(pause)
    left = yield from _unassigned(topics, owned)
    position = 0
    for member, wanted in quotas:
        mine = owned[member.id]
        missing = wanted - len(mine)
        mine += left[position : position + missing]
        position += missing
        yield from next(pause)
    assert position == len(left), "partitions are left over"


# -- unequal subscriptions


class _Balancer:
    """Balances partitions among members. Members are represented by numbers; `counts` has the number of partitions of
    each.
    """

    def __init__(self, given: AssignmentInput, owned: dict[str, list[TopicIdPartition]]) -> None:
        self._given = given
        self._owned = owned
        self._ids = [member.id for member in given.members]
        self._counts = [len(owned[member_id]) for member_id in self._ids]
        self._subscribers: defaultdict[bytes, list[int]] = defaultdict(list)
        self._owners: dict[TopicIdPartition, int] = {}

    def run(self) -> Work[None]:
        for number, member in enumerate(self._given.members):
            for topic_id in member.topics:
                self._subscribers[topic_id].append(number)
            self._owners.update(dict.fromkeys(self._owned[member.id], number))
            yield
        topics = sorted(self._subscribers, key=self._order)
        counts = [(topic_id, self._given.topics[topic_id]) for topic_id in topics]
        left = yield from _unassigned(counts, self._owned)
        yield from self._assign(left)
        yield from self._balance(topics)
        yield from self._set_owned()

    def _order(self, topic_id: bytes) -> tuple[float, int, bytes]:
        """Returns the sort key of a topic: those with the most partitions per subscriber, and so the least choice, come
        first.
        """
        subscribers = len(self._subscribers[topic_id])
        return -self._given.topics[topic_id] / subscribers, subscribers, topic_id

    def _assign(self, left: list[TopicIdPartition]) -> Work[None]:
        """Assigns each partition to the subscriber with the fewest."""
        topic_id, heap = b"", list[tuple[int, int]]()
        pause = pauses(PIECE)
        for partition in left:
            if partition[0] != topic_id:
                topic_id = partition[0]
                heap = [
                    (self._counts[member_id], member_id)
                    for member_id in self._subscribers[topic_id]
                ]
                heapq.heapify(heap)
                yield
            count, member = heap[0]
            self._owners[partition] = member
            self._counts[member] = count + 1
            heapq.heapreplace(heap, (count + 1, member))
            yield from next(pause)

    def _balance(self, topics: list[bytes]) -> Work[None]:
        for _ in range(ROUNDS_MAX):
            moved = False
            for topic_id in topics:
                moved |= yield from self._balance_topic(topic_id)
            if not moved:
                return

    def _balance_topic(self, topic_id: bytes) -> Work[bool]:
        """Moves partitions of the topic from its fullest to its emptiest subscriber while they differ by two or
        more.
        """
        held: defaultdict[int, list[int]] = defaultdict(list)
        pause = pauses(PIECE)
        for partition in range(self._given.topics[topic_id]):
            held[self._owners[TopicIdPartition(topic_id, partition)]].append(partition)
            yield from next(pause)
        counts = self._counts
        fullest = [(-counts[member], member) for member in held]
        emptiest = [(counts[member], member) for member in self._subscribers[topic_id]]
        heapq.heapify(fullest)
        heapq.heapify(emptiest)
        yield
        has_moved = False
        while fullest:
            count, giver = heapq.heappop(fullest)
            if -count != counts[giver]:
                heapq.heappush(fullest, (-counts[giver], giver))
                continue
            few, taker = emptiest[0]
            if few != counts[taker]:
                heapq.heapreplace(emptiest, (counts[taker], taker))
                continue
            if counts[giver] - counts[taker] < 2:
                break
            self._move(topic_id, held, giver, taker)
            has_moved = True
            heapq.heapreplace(emptiest, (counts[taker], taker))
            if held[giver]:
                heapq.heappush(fullest, (-counts[giver], giver))
            yield from next(pause)
        return has_moved

    def _move(
        self, topic_id: bytes, held: defaultdict[int, list[int]], giver: int, taker: int
    ) -> None:
        partition = held[giver].pop()
        self._owners[TopicIdPartition(topic_id, partition)] = taker
        self._counts[giver] -= 1
        self._counts[taker] += 1

    def _set_owned(self) -> Work[None]:
        for partitions in self._owned.values():
            partitions.clear()
        pause = pauses(PIECE)
        for partition, member in self._owners.items():
            self._owned[self._ids[member]].append(partition)
            yield from next(pause)
