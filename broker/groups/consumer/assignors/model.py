"""The input and output of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.work import Work

# The number of partitions or members processed between two yields: about a millisecond.
PIECE = 1_000


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member as seen by an assignor: the ids of its subscribed topics, and its current target."""

    id: str
    topics: frozenset[bytes]
    target: Partitions = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """The input of an assignor: `members`, at least one, and `topics`, the partition counts by topic id of all topics
    with subscribers.
    """

    members: tuple[AssignedMember, ...]
    topics: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len({member.topics for member in self.members}) <= 1


Assignment = dict[str, Partitions]
"""The partitions by member id."""

Assignor = Callable[[AssignmentInput], Work[Assignment]]
