"""The steps of a member towards its target: give up tasks, wait for tasks of other members, take them.

Source: Kafka's `CurrentAssignmentBuilder` (KIP-1071), with the states of `StreamsMemberState`. A task may be active
only once in the group, and in one role only in each process. A task that changes its role at one member does so without
a gap: a standby that becomes active stays a standby until then.

```
Stable at an older epoch    -> Unrevoked     it has tasks that are not in its target
Unrevoked                   -> Unrevoked     while it reports any of them as owned
                            -> next step     at its next epoch, as from Stable
Stable, Unreleased          -> Unreleased    others hold some of its target; it takes the free tasks
                            -> Stable        it has its target, at the target's epoch
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.tasks import (
    AssignedTasks,
    MemberTasks,
    Task,
    TaskSet,
    contains,
    overlap,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch

Reported = MemberTasks | None
"""The tasks that a member reports as owned; None if the request omits them."""

Changing = dict[str, set[int]]

NOTHING: AbstractSet[int] = frozenset()


def reconcile(
    member: StreamsMember,
    target_epoch: GroupEpoch,
    target: MemberTasks,
    group: StreamsGroup,
    reported: Reported,
) -> StreamsMember:
    """Returns the member after its next step, or the same member if there is none. `group` has the holders of all
    tasks. A member in an unknown state has nothing (`check_state`).
    """
    step = _TaskStep(member, target_epoch, target, group, reported)
    match member.state:
        case StreamsMemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return step.from_epoch(member.epoch)
        case StreamsMemberState.UNREVOKED_TASKS:
            if step.still_owns(member.revoking):
                return member
            return step.from_epoch(GroupEpoch(member.epoch + 1))
        case StreamsMemberState.UNRELEASED_TASKS:
            return step.from_epoch(member.epoch)
        case StreamsMemberState.UNKNOWN:
            return step.from_epoch(target_epoch)


def check_state(member: StreamsMember, reported: Reported) -> None:
    """Raises KafkaError FENCED_MEMBER_EPOCH if the member's state is unknown to this version; it must rejoin."""
    if member.state is StreamsMemberState.UNKNOWN and (reported is None or any(reported)):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )


class _Role:
    """The tasks of one role during a step: kept, to give up, and to take."""

    def __init__(
        self,
        current: Mapping[str, Collection[int]],
        target: TaskSet,
        is_held: Callable[[Task], bool],
        held_partitions: Callable[[str], set[int]],
        surely_held: Callable[[str], AbstractSet[int]] = lambda _subtopology: frozenset(),
    ) -> None:
        self.current = current
        self.kept: Changing = {}
        self.revoking: Changing = {}
        self.taking: Changing = {}
        self.has_unreleased = False
        for subtopology in sorted(current.keys() | target.keys()):
            mine = set(current.get(subtopology, ()))
            wanted = target.get(subtopology, frozenset())
            self._note(self.kept, subtopology, mine & wanted)
            self._note(self.revoking, subtopology, mine - wanted)
            new = wanted - mine
            busy = new & held_partitions(subtopology)
            free = set(new - busy)
            busy -= surely_held(subtopology)
            free |= {each for each in busy if not is_held(Task(subtopology, each))}
            self._note(self.taking, subtopology, free)
            self.has_unreleased |= len(free) < len(new)

    @staticmethod
    def _note(tasks: Changing, subtopology: str, partitions: set[int]) -> None:
        if partitions:
            tasks[subtopology] = partitions

    def take_at_once(self, subtopology: str, partition: int) -> bool:
        """Keeps a task that was to be taken, without waiting for its holder; returns False for any other task."""
        if not _remove(self.taking, subtopology, partition):
            return False
        self.kept.setdefault(subtopology, set()).add(partition)
        return True


class _TaskStep:
    def __init__(
        self,
        member: StreamsMember,
        target_epoch: GroupEpoch,
        target: MemberTasks,
        group: StreamsGroup,
        reported: Reported,
    ) -> None:
        self._member = member
        self._mine = member.assigned
        self._target_epoch = target_epoch
        self._target = target
        self._group = group
        self._reported = reported

    def still_owns(self, revoked: AssignedTasks) -> bool:
        """Returns whether the member still owns, or may own, any of the tasks."""
        if self._reported is None:
            return True
        return any(map(overlap, self._reported, revoked))

    def from_epoch(self, epoch: GroupEpoch) -> StreamsMember:
        mine, target = self._mine, self._target
        held = self._group.held_partitions
        active = _Role(
            mine.active, target.active, self._is_active_held, held, self._group.active_partitions
        )
        standby = _Role(mine.standby, target.standby, self._is_standby_held, held)
        warmup = _Role(mine.warmup, target.warmup, self._is_warmup_held, held)
        for subtopology, partitions in mine.active.items():
            for partition in standby.taking.get(subtopology, NOTHING) & partitions.keys():
                standby.take_at_once(subtopology, partition)  # an active task becomes a standby
        _convert(standby, warmup)
        _convert(warmup, standby)
        for role in (standby, warmup):
            for subtopology, partition in self._promoted(role):
                _remove(role.revoking, subtopology, partition)
        revoking = self._with_epochs(active.revoking, standby.revoking, warmup.revoking)
        must_revoke = any(revoking) and self.still_owns(revoking)
        for role in (standby, warmup):
            for subtopology, partition in self._promoted(role):
                if must_revoke or partition not in active.taking.get(subtopology, ()):
                    role.kept.setdefault(subtopology, set()).add(partition)
        kept = self._with_epochs(active.kept, standby.kept, warmup.kept)
        if must_revoke:
            return self._moved(epoch, StreamsMemberState.UNREVOKED_TASKS, kept, revoking)
        taken = self._with_epochs(*(_united(r.kept, r.taking) for r in (active, standby, warmup)))
        has_unreleased = any(role.has_unreleased for role in (active, standby, warmup))
        state = StreamsMemberState.UNRELEASED_TASKS if has_unreleased else StreamsMemberState.STABLE
        return self._moved(self._target_epoch, state, taken, AssignedTasks())

    def _promoted(self, role: _Role) -> list[Task]:
        """Returns the tasks of a role that the target makes active."""
        return [
            Task(subtopology, partition)
            for subtopology, partitions in role.current.items()
            for partition in self._target.active.get(subtopology, NOTHING) & frozenset(partitions)
        ]

    def _with_epochs(self, active: Changing, standby: Changing, warmup: Changing) -> AssignedTasks:
        """Returns tasks with the epochs of their assignment; new ones are of the target's epoch."""
        return AssignedTasks(
            {
                subtopology: self._epochs_of(subtopology, partitions)
                for subtopology, partitions in active.items()
            },
            {subtopology: frozenset(partitions) for subtopology, partitions in standby.items()},
            {subtopology: frozenset(partitions) for subtopology, partitions in warmup.items()},
        )

    def _epochs_of(self, subtopology: str, partitions: set[int]) -> dict[int, GroupEpoch]:
        known = self._mine.active.get(subtopology, {})
        epochs = dict.fromkeys(sorted(partitions), self._target_epoch)
        epochs.update(
            {partition: known[partition] for partition in partitions if partition in known}
        )
        return epochs

    # -- tasks held by others

    def _is_active_held(self, task: Task) -> bool:
        return (
            self._group.active_process(task) is not None
            or self._has_standby_in_process(task)
            or self._has_warmup_in_process(task)
        )

    def _is_standby_held(self, task: Task) -> bool:
        runs_here = self._group.active_process(task) == self._member.process_id
        return (
            (runs_here and not contains(self._mine.active, *task))
            or self._member.process_id in self._group.standby_processes(task)
            or self._has_warmup_in_process(task)
        )

    def _is_warmup_held(self, task: Task) -> bool:
        return (
            self._group.active_process(task) == self._member.process_id
            or self._has_standby_in_process(task)
            or self._member.process_id in self._group.warmup_processes(task)
        )

    def _has_standby_in_process(self, task: Task) -> bool:
        """Returns whether another member of the process holds the task as a standby."""
        processes = self._group.standby_processes(task)
        return self._member.process_id in processes and not contains(self._mine.standby, *task)

    def _has_warmup_in_process(self, task: Task) -> bool:
        processes = self._group.warmup_processes(task)
        return self._member.process_id in processes and not contains(self._mine.warmup, *task)

    def _moved(
        self,
        epoch: GroupEpoch,
        state: StreamsMemberState,
        assigned: AssignedTasks,
        revoking: AssignedTasks,
    ) -> StreamsMember:
        """Returns the moved member; its previous epoch is the epoch before this step, even if both are equal."""
        return replace(
            self._member,
            epoch=epoch,
            previous_epoch=self._member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )


def _convert(outgoing: _Role, incoming: _Role) -> None:
    """Changes the role of tasks that the member has in one role and is to take in another."""
    for subtopology, partitions in outgoing.current.items():
        for partition in incoming.taking.get(subtopology, NOTHING) & frozenset(partitions):
            if incoming.take_at_once(subtopology, partition):
                _remove(outgoing.revoking, subtopology, partition)


def _remove(tasks: Changing, subtopology: str, partition: int) -> bool:
    """Removes a task; returns whether it was present."""
    partitions = tasks.get(subtopology, set())
    if partition not in partitions:
        return False
    partitions.discard(partition)
    if not partitions:
        del tasks[subtopology]
    return True


def _united(some: Changing, more: Changing) -> Changing:
    return {
        subtopology: some.get(subtopology, set()) | more.get(subtopology, set())
        for subtopology in some.keys() | more.keys()
    }
