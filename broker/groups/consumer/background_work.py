"""What a coordinator is busy with for one group: a target or a pattern that takes longer than a moment.

It is not in any record: whoever takes the group over begins again. A target is computed in pieces, on a timer of the
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
    """One for each consumer group that somebody spoke to since the shard was loaded."""

    target: TargetWork | None = None
    # Patterns to be resolved, each with what the member may see that asked for it; and whether somebody is about it.
    regexes: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    resolving: bool = False
    # Against which state of the metadata the group's hash was found to be right.
    checked_topics: object = None
    # By pattern: the same, and when (wall clock, ms).
    checked_regexes: dict[str, tuple[object, int]] = field(default_factory=dict)
