"""The sticky assignor: every task active at one member, standbys at members of other processes, and as few moved tasks
as possible.

Source: Kafka's `StickyTaskAssignor`, with exactly its result (`java_order`). In Kafka 4.4 it gives no warm-up tasks,
and the lag and the racks of members do not change its result; the offsets that members report do: the member that has
read furthest takes over first.

It is a generator: the caller may pause between pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from trimaran.broker.groups.heartbeating.work import Work
from trimaran.broker.groups.streams.java_order import PriorityQueue, computed_hash_order, hash_order
from trimaran.broker.groups.streams.process import ClientProcess
from trimaran.broker.groups.streams.tasks import MemberTasks, Task, TaskSet, contains, each
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.pauses import pauses

Assignment = Mapping[str, MemberTasks]
"""The target of each member."""

TaskOffsets = Mapping[str, Mapping[int, Offset]]
"""The sums of the offsets up to which a member has restored its tasks, by subtopology and partition."""

# The number of tasks between two pauses, about 5 ms.
PIECE = 500

_BY_PARTITION = attrgetter("partition", "subtopology")


@dataclass(frozen=True, slots=True)
class TaskMember:
    """A member before the assignment, with its current tasks."""

    id: str
    process_id: str
    active: TaskSet = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    offsets: TaskOffsets = field(default_factory=dict)


class AssignedSubtopology(NamedTuple):
    """A subtopology; only tasks with state have standbys."""

    id: str
    task_count: int
    is_stateful: bool


class _TaskPlace(NamedTuple):
    process: ClientProcess
    member_id: str


class _Quota:
    """The maximum number of tasks per member (`each`), so that all members get about the same number. Members that have
    reached it no longer count, nor do their tasks.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = -(-tasks // members)

    def note(self, count: int) -> None:
        """Notes that a member now has `count` tasks."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = -(-self._tasks // self._members) if self._members else 0


class _Assigning:
    """The state of one assignment."""

    def __init__(
        self,
        members: Sequence[TaskMember],
        subtopologies: Sequence[AssignedSubtopology],
        standbys: int,
    ) -> None:
        self._standbys = standbys
        active_count = sum(one.task_count for one in subtopologies)
        stateful_count = sum(one.task_count for one in subtopologies if one.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._quota = _Quota(active_count + stateful_count * standbys, len(members))
        by_id = {member.id: member for member in members}
        self._processes: dict[str, ClientProcess] = {}
        self._was_active: dict[Task, _TaskPlace] = {}
        # By task, the members that had it as a standby or reported an offset of it: place, whether it was a standby,
        # and the offset.
        candidates: dict[Task, list[tuple[_TaskPlace, bool, int]]] = {}
        for member_id in hash_order(sorted(by_id)):
            member = by_id[member_id]
            process = self._processes.setdefault(member.process_id, ClientProcess())
            process.add_member(member_id)
            place = _TaskPlace(process, member_id)
            self._was_active.update(dict.fromkeys(each(member.active), place))
            for task, was_standby, offset in _standby_claims(member):
                candidates.setdefault(task, []).append((place, was_standby, offset))
        self._was_standby = {
            task: [place for place, _, _ in sorted(found, key=lambda one: (not one[1], -one[2]))]
            for task, found in candidates.items()
        }
        in_order = computed_hash_order(self._processes, expected=len(members))
        self._in_order = [self._processes[process_id] for process_id in in_order]

    # -- active tasks

    def assign_active(self, tasks: list[Task]) -> Work[None]:
        tasks.sort(key=_BY_PARTITION)
        left = yield from self._keep_active(tasks)
        left = yield from self._promote_standbys(left)
        left.sort()
        by_load = PriorityQueue[ClientProcess](attrgetter("load"), self._in_order)
        pause = pauses(PIECE)
        for task in left:
            process = by_load.take()
            self._note(process.add_to_least_loaded(task, is_active=True))
            by_load.add(process)
            yield from next(pause)

    def _keep_active(self, tasks: Iterable[Task]) -> Work[list[Task]]:
        left = []
        pause = pauses(PIECE)
        for task in tasks:
            if not self._take(self._was_active.get(task), task):
                left.append(task)
            yield from next(pause)
        return left

    def _promote_standbys(self, tasks: Iterable[Task]) -> Work[list[Task]]:
        left = []
        pause = pauses(PIECE)
        for task in tasks:
            if not self._take(_least_loaded(self._was_standby.get(task, ())), task):
                left.append(task)
            yield from next(pause)
        return left

    def _take(self, place: _TaskPlace | None, task: Task) -> bool:
        """Gives an active task to a member if its quota admits it; returns whether it does."""
        if place is None or place.process.counts[place.member_id] >= self._active_quota.each:
            return False
        self._note(place.process.add(place.member_id, task, is_active=True))
        return True

    def _note(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    # -- standby tasks

    def assign_standby(self, tasks: list[Task]) -> Work[None]:
        tasks.sort(key=_BY_PARTITION, reverse=True)
        left: list[tuple[Task, int]] = []
        pause = pauses(PIECE)
        for task in tasks:
            if missing := self._standbys - self._kept(task):
                left.append((task, missing))
            yield from next(pause)
        left.sort(reverse=True)
        by_load = PriorityQueue[ClientProcess](attrgetter("load"), self._in_order)
        pause = pauses(PIECE)
        for task, missing in left:
            for _ in range(missing):
                if not self._assign_to_least_loaded(by_load, task):
                    break  # there are not enough processes
            yield from next(pause)

    def _kept(self, task: Task) -> int:
        """Gives standbys of a task to members that had the task; returns the number of standbys given."""
        for kept in range(self._standbys):
            place = self._was_active.get(task)
            if place is None or task in place.process.tasks or not self._has_room(place):
                place = _least_loaded(self._was_standby.get(task, ()), without=task)
                if place is None or not self._has_room(place):
                    return kept
            self._quota.note(place.process.add(place.member_id, task, is_active=False))
        return self._standbys

    def _has_room(self, place: _TaskPlace) -> bool:
        return place.process.counts[place.member_id] < self._quota.each

    def _assign_to_least_loaded(self, by_load: PriorityQueue[ClientProcess], task: Task) -> bool:
        """Gives a standby to the least loaded process without the task; returns whether there is one."""
        seen: list[ClientProcess] = []
        found = False
        while by_load and not found:
            process = by_load.take()
            seen.append(process)
            if task not in process.tasks:
                self._quota.note(process.add_to_least_loaded(task, is_active=False))
                found = True
        for process in reversed(seen):
            by_load.add(process)
        return found

    def result(self, members: Iterable[TaskMember]) -> Work[dict[str, MemberTasks]]:
        found: dict[str, MemberTasks] = {}
        pause = pauses(PIECE)
        for member in members:
            process = self._processes[member.process_id]
            active = yield from _by_subtopology(process.active.get(member.id, ()))
            standby = yield from _by_subtopology(process.standby.get(member.id, ()))
            found[member.id] = MemberTasks(active, standby)
            yield from next(pause)
        return found


def _standby_claims(member: TaskMember) -> Iterable[tuple[Task, bool, int]]:
    """Yields the tasks that a member has as standbys or has offsets of, whether it is a standby, and the offset."""
    for task in each(member.standby):
        yield task, True, member.offsets.get(task.subtopology, {}).get(task.partition, 0)
    for subtopology, offsets in member.offsets.items():
        for partition, offset in offsets.items():
            if not contains(member.standby, subtopology, partition):
                yield Task(subtopology, partition), False, offset


def _least_loaded(places: Iterable[_TaskPlace], without: Task | None = None) -> _TaskPlace | None:
    """Returns the place with the least load. A later place is preferred only if its process and its member both have
    less load than those of the best place before it.
    """
    best: _TaskPlace | None = None
    for place in places:
        process = place.process
        if without is not None and without in process.tasks:
            continue
        if best is None or (
            process.load < best.process.load
            and process.counts[place.member_id] < best.process.counts[best.member_id]
        ):
            best = place
    return best


def _by_subtopology(tasks: Iterable[Task]) -> Work[TaskSet]:
    found: dict[str, set[int]] = {}
    pause = pauses(PIECE)
    for task in tasks:
        found.setdefault(task.subtopology, set()).add(task.partition)
        yield from next(pause)
    return {subtopology: frozenset(mine) for subtopology, mine in found.items()}


def _tasks_of(subtopologies: Iterable[AssignedSubtopology]) -> Work[list[Task]]:
    tasks: list[Task] = []
    pause = pauses(PIECE)
    for one in subtopologies:
        for number in range(one.task_count):
            tasks.append(Task(one.id, number))
            yield from next(pause)
    return tasks


def assign(
    members: Sequence[TaskMember], subtopologies: Sequence[AssignedSubtopology], standbys: int
) -> Work[Assignment]:
    """Returns the tasks of each member.

    Args:
        members: at least one.
        subtopologies: sorted by id.
        standbys: the wanted number of standbys of each task with state.
    """
    assigning = _Assigning(members, subtopologies, standbys)
    yield
    yield from assigning.assign_active((yield from _tasks_of(subtopologies)))
    if standbys > 0:
        stateful = [one for one in subtopologies if one.is_stateful]
        yield from assigning.assign_standby((yield from _tasks_of(stateful)))
    return (yield from assigning.result(members))
