"""The range assignor: each member gets a run of each topic's partitions, with members in a fixed order.

Members that subscribe to the same topics therefore get the same partition numbers of each (co-partitioning); their runs
stay the same after a rebalance only if the order of the members does. Source: Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from trimaran.broker.groups.consumer.assignors.model import (
    PIECE,
    AssignedMember,
    Assignment,
    AssignmentInput,
)
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.work import Work
from trimaran.wire.transport.scheduling.pauses import pauses


def assign_ranges(given: AssignmentInput) -> Work[Assignment]:
    """Computes the assignment. Static members come first, by instance id, so that each keeps its place after a
    restart.
    """
    members = sorted(given.members, key=_order)
    runs = yield from _runs_of_topics(given, members)
    assignment: Assignment = {}
    work = 0
    for member in members:
        partitions: dict[bytes, frozenset[int]] = {}
        for topic_id in member.topics:
            run = next(runs[topic_id])
            if run:
                partitions[topic_id] = frozenset(run)
            work += 1 + len(run)
        found: Partitions = partitions
        assignment[member.id] = found
        if work > PIECE:
            work = 0
            yield
    return assignment


def _order(member: AssignedMember) -> tuple[bool, str]:
    is_dynamic = member.instance_id is None
    return is_dynamic, member.id if member.instance_id is None else member.instance_id


def _runs_of_topics(
    given: AssignmentInput, members: list[AssignedMember]
) -> Work[dict[bytes, Runs]]:
    subscribers: dict[bytes, int] = {}
    pause = pauses(PIECE)
    for member in members:
        for topic_id in member.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
        yield from next(pause)
    return {topic_id: Runs(given.topics[topic_id], n) for topic_id, n in subscribers.items()}


class Runs:
    """The runs of one topic, the longer ones first."""

    def __init__(self, partitions: int, members: int) -> None:
        self._quota, self._extra = divmod(partitions, members)
        self._next = 0

    def __next__(self) -> range:
        start = self._next
        self._next += self._quota + (self._extra > 0)
        self._extra -= self._extra > 0
        return range(start, self._next)
