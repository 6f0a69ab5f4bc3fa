"""The common part of target assignment: the changed targets are written, at once or for some members at a time.

Source: Kafka's `TargetAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from trimaran.broker.groups.heartbeating.operation import HeartbeatOperation, HeartbeatTimer
from trimaran.broker.groups.heartbeating.work import Work
from trimaran.wire.identity import GroupEpoch

T = TypeVar("T")

# The work of one tick of the timer, about 5 ms each. A record has a few hundred bytes, or 4 for each assigned partition
# or task.
RECORDS_PER_TICK = 200
ASSIGNED_PER_TICK = 20_000

# A member without a target always gets a record, even for an empty target.
_NEVER = object()


@dataclass(slots=True)
class TargetWork(Generic[T]):
    """The target of `epoch`, which is first computed, then written for some members at a time."""

    epoch: GroupEpoch
    computing: Work[Mapping[str, T]]
    assignment: Mapping[str, T] | None = None
    unwritten: Iterator[str] | None = None

    def compute(self, pieces: int) -> None:
        """Computes some pieces of the target."""
        try:
            for _ in range(pieces):
                next(self.computing)
        except StopIteration as stop:
            assignment: Mapping[str, T] = stop.value
            self.assignment = assignment
            self.unwritten = iter(assignment)


def go_on(
    operation: HeartbeatOperation[Any, Any, Any, Any], target: TargetWork[Any], pieces: int
) -> bool:
    """Does the work of one tick of the timer: computes some pieces, or writes some targets. Returns whether all have
    been written; otherwise sets the timer again.
    """
    if target.assignment is None:
        target.compute(pieces)
    elif write_some(operation, target):
        operation.finish_target(target.epoch)
        operation.work.target = None
        return True
    operation.set_timer(HeartbeatTimer.TARGET, 0)
    return False


def write_targets(
    operation: HeartbeatOperation[Any, Any, Any, Any],
    assignment: Mapping[str, object],
    member_ids: Iterable[str],
) -> None:
    """Writes the changed targets of the current members."""
    group, records = operation.group, operation.RECORDS
    operation.write(
        [
            records.target(group.id, member_id, assignment[member_id])
            for member_id in member_ids
            if member_id in group.members
            and assignment[member_id] != group.target.get(member_id, _NEVER)
        ]
    )


def write_some(operation: HeartbeatOperation[Any, Any, Any, Any], target: TargetWork[Any]) -> bool:
    """Writes the next targets after all have been computed. Returns whether all have been written."""
    assignment = target.assignment
    assert assignment is not None
    assert target.unwritten is not None
    size, member_ids = 0, []
    for member_id in islice(target.unwritten, RECORDS_PER_TICK):
        member_ids.append(member_id)
        size += operation.group.target_size(assignment[member_id])
        if size > ASSIGNED_PER_TICK:
            break
    write_targets(operation, assignment, member_ids)
    return not member_ids
