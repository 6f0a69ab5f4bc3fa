"""Faults on demand in a test: rules that are added, waited for, released and removed.

kafka.faults.add(api="Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=3)
with kafka.faults(api="Produce", delay=0.5): ...
seen = kafka.observe(api="JoinGroup")
held = kafka.barrier("Heartbeat")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trimaran.faults.fault_set import FaultSet
from trimaran.faults.observations import FaultTrace, Observation
from trimaran.faults.plan_file import parse_plan, plan_text
from trimaran.faults.ready_plans import find_plan, ready_plan
from trimaran.faults.rules import FaultPlan, FaultRule

WAIT_SECONDS = 10.0


class KafkaFaults:
    """The rules of a cluster. Errors in a rule are raised by `add`: `PlanError`, which is a ValueError."""

    def __init__(self, rules: FaultSet) -> None:
        self._rules = rules

    def add(self, **rule: Any) -> AddedRule:
        """Adds a rule: the keys of `trimaran.faults.rule_parser`."""
        return AddedRule(self._rules, self._rules.add(**rule))

    def __call__(self, **rule: Any) -> AddedRule:
        """Adds a rule that a `with` block removes at its end."""
        return self.add(**rule)

    def load(self, plan: str | Path) -> list[AddedRule]:
        """Adds the rules of a plan: a path, the text of one, or the name of a ready plan; its seed becomes that of all
        rules.
        """
        if isinstance(plan, str) and "\n" in plan:
            parsed = parse_plan(plan, "plan")
        else:
            parsed = find_plan(plan)
        self._rules.add_plan(parsed)
        return self._added(parsed)

    def add_plan(self, plan: str, /, **values: Any) -> list[AddedRule]:
        """Adds the rules of a ready plan, such as `add_plan("commit-answered-late", group="billing", delay=5)`; the
        values replace those of the same keys in its rules, and `name` replaces the plan's name in their names. The seed
        stays.
        """
        found = ready_plan(plan, **values)
        self._rules.add_plan(found, with_seed=False)
        return self._added(found)

    def _added(self, plan: FaultPlan) -> list[AddedRule]:
        return [AddedRule(self._rules, rule) for rule in plan.rules]

    def clear(self) -> None:
        """Removes all rules, and releases the requests and responses that they hold."""
        self._rules.clear()

    def __iter__(self) -> Any:
        return iter([AddedRule(self._rules, rule) for rule in self._rules.rules()])

    def unmatched(self) -> list[str]:
        """Returns the names of the rules that no request has matched."""
        return self._rules.unmatched()

    @property
    def fault_set(self) -> FaultSet:
        """Returns the underlying set of rules, for a proxy or a control that serves the same rules."""
        return self._rules

    @property
    def seed(self) -> int:
        """Returns the seed of all random decisions."""
        return self._rules.seed

    @property
    def trace(self) -> FaultTrace:
        """Returns the trace of the actions that were carried out; its `str` has a line for each."""
        return self._rules.trace

    @property
    def plan(self) -> str:
        """Returns the rules and the seed as a plan file."""
        return plan_text(self._rules.plan())

    def check_scripts(self) -> None:
        """Raises the errors of scripts, which could not be raised where they happened."""
        if self._rules.script_errors:
            raise BaseExceptionGroup("scripts failed", self._rules.script_errors)


class FaultyKafka(ABC):
    """A cluster whose clients get faults on demand."""

    @property
    @abstractmethod
    def faults(self) -> KafkaFaults:
        """Returns the rules of this cluster."""

    def observe(self, **rule: Any) -> AddedRule:
        """Watches the matching requests and their responses, which pass: `kafka.observe(api="JoinGroup")`."""
        return self.faults.add(**rule)

    def barrier(self, api: str, **rule: Any) -> AddedRule:
        """Holds the matching requests, or with `hold="response"` the responses, until `release` or `remove`."""
        return self.faults.add(api=api, **({"hold": "request"} | rule))


class AddedRule:
    """A rule at work; as a context manager it is removed at the end of the block."""

    def __init__(self, rules: FaultSet, rule: FaultRule) -> None:
        self._rules = rules
        self._rule = rule

    @property
    def name(self) -> str:
        return self._rule.name

    @property
    def seen(self) -> list[Observation]:
        """Returns the newest requests to which the rule applied, with their responses."""
        return self._rules.seen(self.name)

    @property
    def matched(self) -> int:
        """Returns how many requests have matched."""
        return self._rules.counters(self.name).matched

    @property
    def applied(self) -> int:
        """Returns to how many of them the rule has applied."""
        return self._rules.counters(self.name).applied

    @property
    def held(self) -> int:
        """Returns how many requests and responses the rule holds now."""
        return self._rules.holding(self.name)

    def wait(self, count: int = 1, timeout: float = WAIT_SECONDS) -> list[Observation]:
        """Waits until the rule has applied `count` times; returns the observations.

        Raises:
            AssertionError: it has not within `timeout` seconds.
        """
        self._wait(lambda: self.applied >= count, f"applied {count} times", timeout)
        return self.seen

    def wait_answered(self, count: int = 1, timeout: float = WAIT_SECONDS) -> list[Observation]:
        """Waits until `count` observations have a response; returns these. Raises as `wait` does."""

        def answered() -> list[Observation]:
            return [each for each in self.seen if each.response is not None]

        self._wait(lambda: len(answered()) >= count, f"seen {count} responses", timeout)
        return answered()

    def wait_held(self, count: int = 1, timeout: float = WAIT_SECONDS) -> None:
        """Waits until `count` requests or responses are held. Raises as `wait` does."""
        self._wait(lambda: self.held >= count, f"held {count}", timeout)

    def _wait(self, is_enough: Any, wanted: str, timeout: float) -> None:
        if not self._rules.wait(self.name, is_enough, timeout):
            raise AssertionError(
                f"{self.name} has not {wanted} within {timeout:g} s: it matched {self.matched} requests, "
                f"applied to {self.applied}, and holds {self.held}"
            )

    def assert_never(self) -> None:
        """Raises AssertionError: a request has matched."""
        if self.matched:
            first = [f"{seen.api.spelling}{seen.item_text}" for seen in self.seen[:3]]
            raise AssertionError(f"{self.name} matched {self.matched} requests: {', '.join(first)}")

    def release(self) -> int:
        """Releases all requests and responses that the rule holds now; returns their number."""
        return self._rules.release(self.name)

    def remove(self) -> None:
        """Removes the rule, and releases what it holds."""
        self._rules.remove(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.name in [rule.name for rule in self._rules.rules()]:
            self.remove()

    def __repr__(self) -> str:
        return f"<rule {self.name}: matched {self.matched}, applied {self.applied}>"
