"""A rule: what it matches, when, and what it does then. The values are checked by `trimaran.faults.rule_parser`.

Rules are examined in the order in which they were added. Each one that matches does its actions; the first one that
answers, drops or ends a request is the last one for it, or for the items that it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimaran.faults.actions import FaultAction, HoldFrame
from trimaran.faults.conditions import FieldCondition
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.messages.registry import ApiKey

# The maximum number of rules. Each request is compared with all rules of its API.
RULES_MAX = 1000
# The maximum length of a rule's name.
RULE_NAME_CHARS_MAX = 200
# The maximum number of steps in a rule's sequence.
SEQUENCE_STEPS_MAX = 1000


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """The requests, and the items in them, that a rule concerns. Texts are globs; None and empty values match all."""

    apis: frozenset[ApiKey] = frozenset()
    versions: Versions | None = None
    listener: str | None = None
    broker: int | None = None
    client_id: str | None = None
    software: str | None = None
    principal: str | None = None
    connection: int | None = None
    topic: str | None = None
    partitions: frozenset[int] | None = None
    group: str | None = None
    transactional_id: str | None = None
    member: str | None = None
    where: tuple[FieldCondition, ...] = ()

    @property
    def item_roles(self) -> frozenset[str]:
        """Returns the roles of items that the rule names."""
        named = {
            "topic": self.topic,
            "partition": self.partitions,
            "group": self.group,
            "transactional_id": self.transactional_id,
            "member": self.member,
        }
        return frozenset(role for role, value in named.items() if value is not None)


@dataclass(frozen=True, slots=True)
class RuleSchedule:
    """Which of the matching requests a rule applies to: after the first `after`, each `every`-th, with `probability`,
    at most `times`, and only `until` this many seconds after it was added.
    """

    times: int | None = None
    after: int = 0
    every: int = 1
    probability: float = 1.0
    until: float | None = None
    once_per_connection: bool = False


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A rule; without actions it only observes. `steps` are the actions of its first application, of its second, and
    so on; the last step is repeated, unless `once_through`. `given` is the rule as keywords, for lists and plans.
    """

    name: str
    match: RuleMatch
    schedule: RuleSchedule
    steps: tuple[tuple[FaultAction, ...], ...] = ((),)
    once_through: bool = False
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def actions(self, application: int) -> tuple[FaultAction, ...]:
        """Returns the actions of an application, counted from 0."""
        return self.steps[min(application, len(self.steps) - 1)]

    @property
    def observes_only(self) -> bool:
        """Whether the rule has no actions."""
        return not any(self.steps)

    @property
    def released_by(self) -> str:
        """Returns the name of the rule whose applications release the frames that this rule holds."""
        held = (action for step in self.steps for action in step if isinstance(action, HoldFrame))
        return next((action.released_by for action in held if action.released_by), "")

    @property
    def times(self) -> int | None:
        """Returns the largest number of applications; None without a limit."""
        limits = [self.schedule.times] if self.schedule.times is not None else []
        limits += [len(self.steps)] if self.once_through else []
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class PlanStory:
    """The fault of a plan, the incidents, proposals (KIP) or issues that it repeats, and the behaviour of a correct
    client.
    """

    title: str = ""
    replays: tuple[str, ...] = ()
    shows: str = ""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Rules, the seed of their random decisions, and the story that they tell."""

    rules: tuple[FaultRule, ...] = ()
    seed: int = 0
    story: PlanStory = PlanStory()
