"""The input and the output of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from trimaran.broker.groups.consumer.member import Partitions

T = TypeVar("T")

Work = Generator[None, None, T]
"""Work in pieces of some milliseconds at the most; its value is the result."""

# Partitions or members looked at between two yields: about a millisecond.
PIECE = 1_000


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member as an assignor sees it: ids of the topics it subscribes to, and the target it has."""

    id: str
    topics: frozenset[bytes]
    target: Partitions = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """`members`: one at the least. `topics`: partition counts by topic id; members subscribe to no others."""

    members: tuple[AssignedMember, ...]
    topics: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """All members subscribe to the same topics."""
        return len({member.topics for member in self.members}) <= 1


Assignment = dict[str, Partitions]
"""Every member's partitions."""

Assignor = Callable[[AssignmentInput], Work[Assignment]]


def done(work: Work[T]) -> T:
    """Does all of it at once."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result
