"""The tasks of a topology by role: active, standby and warm-up.

A task is a partition of a subtopology. Source: Kafka's `TasksTuple`, `TasksTupleWithEpochs`, `TaskId`. Values are
immutable. A mapping has no subtopology without partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from trimaran.wire.identity import GroupEpoch


class Task(NamedTuple):
    """One task; partitions are numbered from 0."""

    subtopology: str
    partition: int


TaskSet = Mapping[str, frozenset[int]]
"""Partitions by subtopology."""

ActiveTasks = Mapping[str, Mapping[int, GroupEpoch]]
"""Partitions by subtopology, each with the member epoch in which it was assigned (KIP-1251)."""

NO_TASKS: TaskSet = {}
NOT_ACTIVE: ActiveTasks = {}


class MemberTasks(NamedTuple):
    """The target of a member, or the tasks that it reports as owned."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS


class AssignedTasks(NamedTuple):
    """The tasks of a member as given by its records."""

    active: ActiveTasks = NOT_ACTIVE
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    @property
    def size(self) -> int:
        """The number of tasks in all roles."""
        return sum(sum(map(len, role.values())) for role in self)

    def without_epochs(self) -> MemberTasks:
        active = {subtopology: frozenset(mine) for subtopology, mine in self.active.items()}
        return MemberTasks(active, self.standby, self.warmup)


NOTHING_ASSIGNED = AssignedTasks()


class HasTasks(Protocol):
    """The entry for one subtopology in a request or a record."""

    subtopology_id: str
    partitions: list[int]


def task_set(entries: Iterable[HasTasks]) -> TaskSet:
    """Converts the entries of a request or record; entries of one subtopology are united."""
    found: dict[str, frozenset[int]] = {}
    for entry in entries:
        if entry.partitions:
            known = found.get(entry.subtopology_id, frozenset())
            found[entry.subtopology_id] = known | frozenset(entry.partitions)
    return found


def united(some: TaskSet, more: TaskSet) -> TaskSet:
    """Returns the tasks of both sets."""
    if not some or not more:
        return more or some
    return {
        subtopology: some.get(subtopology, frozenset()) | more.get(subtopology, frozenset())
        for subtopology in some.keys() | more.keys()
    }


def contains(tasks: Mapping[str, Collection[int]], subtopology: str, partition: int) -> bool:
    """Returns whether the task is in a set, or in a mapping with epochs."""
    return partition in tasks.get(subtopology, ())


def each(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """Yields every task."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield Task(subtopology, partition)


def overlap(
    some: Mapping[str, Iterable[int]],
    others: Mapping[str, Collection[int]],
) -> bool:
    """Returns whether the two have a task in common."""
    return any(
        not frozenset(partitions).isdisjoint(others.get(subtopology, ()))
        for subtopology, partitions in some.items()
    )


def is_within(some: TaskSet, others: Mapping[str, Collection[int]]) -> bool:
    """Returns whether the other mapping has all these tasks."""
    return all(
        partitions <= frozenset(others.get(subtopology, ()))
        for subtopology, partitions in some.items()
    )
