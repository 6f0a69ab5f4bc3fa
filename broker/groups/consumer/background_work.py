"""The work of a coordinator for one group that takes longer than a moment: a target or a pattern.

It is not in any record: the next coordinator of the group begins again. A target is computed in pieces, on a timer
of the
group, and patterns are matched in a thread, so that the loop is never held for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trimaran.broker.groups.consumer.assignors.model import Assignment, Work


@dataclass(slots=True)
class TargetWork:
    """The target of `epoch`: first computed, then written some members at a time."""

    epoch: int
    computing: Work[Assignment]
    assignment: Assignment | None = None
    unwritten: Iterator[str] | None = None


@dataclass(slots=True)
class GroupWork:
    """The work for one consumer group that had a request since the shard was loaded."""

    target: TargetWork | None = None
    # Patterns to be resolved, each with the rights of the member that sent it; and whether a task resolves them.
    regexes: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    resolving: bool = False
    # Against which state of the metadata the group's hash was found to be right.
    checked_topics: object = None
    # By pattern: the same, and when (wall clock, ms).
    checked_regexes: dict[str, tuple[object, int]] = field(default_factory=dict)
