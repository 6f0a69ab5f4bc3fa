"""One client process during an assignment: its members, and their load.

Source: Kafka's `ProcessState`. Two members of a process must not have the same task, in whatever role.
"""

from __future__ import annotations

from operator import attrgetter

from trimaran.broker.groups.streams.java_order import PriorityQueue, hash_order
from trimaran.broker.groups.streams.tasks import Task


class MemberLoad:
    """A member, and the number of its tasks when the queue last saw it."""

    __slots__ = ("count", "member_id")

    def __init__(self, member_id: str, count: int) -> None:
        self.member_id = member_id
        self.count = count


class ClientProcess:
    """The members of a process with their tasks; `load` is the number of tasks per member."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self.tasks: set[Task] = set()
        self.load = 0.0
        self._task_count = 0
        self._by_load: PriorityQueue[MemberLoad] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Gives the task to a member; returns the number of the member's tasks."""
        self._by_load = None
        return self._add(member_id, task, is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Gives the task to the member with the fewest tasks; returns the number of the member's tasks."""
        if len(self.counts) == 1:
            (member_id,) = self.counts
            return self._add(member_id, task, is_active)
        if self._by_load is None:
            self._by_load = PriorityQueue(
                attrgetter("count"),
                (
                    MemberLoad(member_id, self.counts[member_id])
                    for member_id in hash_order(self.counts)
                ),
            )
        least = self._by_load.take()
        least.count = self._add(least.member_id, task, is_active)
        self._by_load.add(least)
        return least.count

    def _add(self, member_id: str, task: Task, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self._task_count += 1
        self.load = self._task_count / len(self.counts)
        self.counts[member_id] += 1
        return self.counts[member_id]
