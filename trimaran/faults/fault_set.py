"""The rules of a process, shared by its connections: added, listed, removed, released; what they have seen and done.

Any thread may call every method. Engines of connections hold `changed` while they decide about a frame.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from trimaran.faults.barriers import HeldFrames
from trimaran.faults.observations import FaultTrace, Observation, RuleCounters
from trimaran.faults.plan_error import PlanError, unknown
from trimaran.faults.response_edits import FirstLeaders
from trimaran.faults.rule_parser import parse_rule
from trimaran.faults.rule_state import RuleState
from trimaran.faults.rules import RULES_MAX, FaultPlan, FaultRule
from trimaran.faults.topic_names import TopicNames

# The errors of scripts that are kept for the test.
ERRORS_MAX = 100


class FaultSet:
    """Rules in the order in which they were added. `is_active` is the flag that a connection without faults reads."""

    def __init__(
        self,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        names: TopicNames | None = None,
    ) -> None:
        self.seed = seed
        self.clock = clock
        self.names = names or TopicNames()
        self.is_active = False
        # Guards all of this state, and is notified of each observation.
        self.changed = threading.Condition(threading.RLock())
        self.held = HeldFrames()
        self.trace = FaultTrace()
        self.first_leaders: FirstLeaders = {}
        self.script_errors: list[BaseException] = []
        self._states: dict[str, RuleState] = {}
        self._by_api: dict[int, tuple[RuleState, ...]] = {}
        self._connections = 0
        self._rules_added = 0
        # Names of rules that were removed before a request matched them.
        self._removed_unmatched: deque[str] = deque(maxlen=RULES_MAX)

    # Rules

    def add(self, **given: Any) -> FaultRule:
        """Adds a rule from keyword arguments. Raises PlanError: see `parse_rule`."""
        with self.changed:
            self._rules_added += 1
            while (name := f"rule-{self._rules_added}") in self._states:
                self._rules_added += 1
            return self.add_rule(parse_rule(given, name=name))

    def add_rule(self, rule: FaultRule) -> FaultRule:
        """Adds a rule after the others. Raises PlanError: its name is in use, or there are too many rules."""
        with self.changed:
            if rule.name in self._states:
                raise PlanError(f"a rule {rule.name} exists", "choose another name", key="name")
            if len(self._states) >= RULES_MAX:
                raise PlanError(f"there are {RULES_MAX} rules", "remove rules that are not needed")
            self._states[rule.name] = RuleState(rule, self.seed, self.clock())
            self._rules_changed()
            return rule

    def add_plan(self, plan: FaultPlan, *, with_seed: bool = True) -> None:
        """Adds the rules of a plan, and takes its seed unless `with_seed` is false."""
        with self.changed:
            if with_seed:
                self.seed = plan.seed
            for rule in plan.rules:
                self.add_rule(rule)

    def remove(self, name: str) -> None:
        """Removes a rule, and releases the frames that it holds. Raises PlanError: there is no such rule."""
        with self.changed:
            state = self._state(name)
            if _was_for_nothing(state):
                self._removed_unmatched.append(name)
            del self._states[name]
            self.held.release(name)
            self._rules_changed()

    def clear(self) -> None:
        """Removes all rules, observations and lines of the trace; connections stay open."""
        with self.changed:
            for name in list(self._states):
                self.remove(name)
            self.trace = FaultTrace()
            self.script_errors.clear()
            self.first_leaders.clear()
            self._rules_added = 0
            self._removed_unmatched.clear()

    def _rules_changed(self) -> None:
        self._by_api.clear()
        self.is_active = bool(self._states)
        self.changed.notify_all()

    def rules(self) -> list[FaultRule]:
        with self.changed:
            return [state.rule for state in self._states.values()]

    def plan(self) -> FaultPlan:
        """Returns the rules and the seed as a plan, which repeats the same run."""
        return FaultPlan(tuple(self.rules()), self.seed)

    def release(self, name: str) -> int:
        """Releases the frames that a rule holds; returns their number. Raises PlanError: there is no such rule."""
        with self.changed:
            self._state(name)
            return self.held.release(name)

    def when_released(self, ticket: int, callback: Callable[[], object]) -> bool:
        """Calls `callback` when a frame is released, in the releasing thread; returns False if it is released
        already.
        """
        with self.changed:
            return self.held.when_released(ticket, callback)

    def holding(self, name: str) -> int:
        """Returns the number of frames that a rule holds now."""
        with self.changed:
            return self.held.waiting(name)

    def note(self, line: str) -> None:
        """Adds a line to the trace that no rule has caused."""
        with self.changed:
            self.trace.add(line)

    def failed(self, error: BaseException) -> None:
        """Keeps an error that cannot be raised where it happened; only the first ones are kept."""
        with self.changed:
            if len(self.script_errors) < ERRORS_MAX:
                self.script_errors.append(error)

    # Observations

    def counters(self, name: str) -> RuleCounters:
        """Returns the counters of a rule. Raises PlanError: there is no such rule."""
        with self.changed:
            counters = self._state(name).counters
            return RuleCounters(counters.matched, counters.applied)

    def seen(self, name: str) -> list[Observation]:
        """Returns the newest observations of a rule. Raises PlanError: there is no such rule."""
        with self.changed:
            return list(self._state(name).seen.kept)

    def wait(self, name: str, is_enough: Callable[[], bool], seconds: float) -> bool:
        """Waits until `is_enough` is true, examined after each observation; returns False if the time runs out first.

        Raises:
            PlanError: there is no such rule.
        """
        with self.changed:
            self._state(name)
            return self.changed.wait_for(is_enough, seconds)

    def unmatched(self) -> list[str]:
        """Returns the names of the rules that no request has matched, also of those that were removed since `clear`;
        not of rules that only observe.
        """
        with self.changed:
            left = [name for name, state in self._states.items() if _was_for_nothing(state)]
            return [*self._removed_unmatched, *left]

    def _state(self, name: str) -> RuleState:
        state = self._states.get(name)
        if state is None:
            raise unknown("rule", name, self._states, "name")
        return state

    # Engines, which hold `changed`

    def states_of(self, api: int) -> Iterable[RuleState]:
        """Returns the rules that concern an API."""
        found = self._by_api.get(api)
        if found is None:
            found = self._by_api[api] = tuple(
                state
                for state in self._states.values()
                if not state.rule.match.apis or api in state.rule.match.apis
            )
        return found

    def next_connection(self) -> int:
        """Returns the number of a connection that sends its first request."""
        self._connections += 1
        return self._connections

    def release_for(self, rule: str) -> None:
        """Releases the frames that wait for an application of `rule`."""
        for state in self._states.values():
            if state.rule.released_by == rule:
                self.held.release(state.rule.name)


def _was_for_nothing(state: RuleState) -> bool:
    return not state.counters.matched and not state.rule.observes_only
