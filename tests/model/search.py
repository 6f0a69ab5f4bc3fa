"""Visits and checks every state of the model, breadth first; a broken invariant is reported with the shortest trail to
it.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.world import Bounds, World
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import InvariantViolated

Trail = tuple["Trail", str] | None
"""The actions that led to a state, the last one first."""


class Broken(AssertionError):
    """An invariant does not hold; the message names it, `trail` is the shortest sequence of actions to that state."""

    def __init__(self, reason: str, trail: list[str]) -> None:
        super().__init__("\n".join([reason, *trail]))
        self.trail = trail


@dataclass
class Count:
    """The result of a search; `is_complete` means that every state within the bounds was visited."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    evaluations: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        end = "to the end" if self.is_complete else "NOT to the end"
        lines = [
            f"{self.states} states, {self.transitions} transitions, depth {self.depth}, {end}, {self.seconds:.1f} s",
            "evaluated: " + ", ".join(f"{k} {v}" for k, v in sorted(self.evaluations.items())),
            "sometimes: "
            + ", ".join(f"{k} {v}" for k, v in sorted(self.met.items()))
            + "".join(f"; never: {name}" for name in SOMETIMES if not self.met[name]),
        ]
        return "\n".join(lines)


def _diverge(world: World) -> bool:
    logs = [r.log.records for r in world.replicas.values()]
    return any(a[: len(b)] != b[: len(a)] for a in logs for b in logs)


SOMETIMES: dict[str, Callable[[World], bool]] = {
    "two leaders at once": lambda world: (
        sum(isinstance(r.raft.role, Leader) for r in world.replicas.values()) > 1
    ),
    "a proposal is committed": lambda world: any(r.data for r in world.committed),
    "commits in two epochs": lambda world: len({r.epoch for r in world.committed}) > 1,
    "logs diverge": _diverge,
    # detected during the action itself
    "a crash lost records": lambda _world: False,
    "everybody has what is committed": lambda world: (
        len(world.committed) > 1
        and all(r.log.durable == world.committed for r in world.replicas.values())
    ),
}


def search(bounds: Bounds, states_max: int = 10**9, seconds_max: float = 1e9) -> Count:
    """Visits every state within the bounds, or stops at one of the limits.

    Raises:
        Broken: with the shortest sequence of actions.
    """
    count, began = Count(), time.process_time()
    first = World.first(bounds)
    try:
        first.check()
    except InvariantViolated as broken:
        raise Broken(str(broken), ["start"]) from broken
    frontier: list[tuple[World, Trail]] = [(first, None)]
    seen = {first.key()}
    gc.disable()  # there are no cycles here, and the search for them takes half of the time
    while frontier:
        level: list[tuple[World, Trail]] = []
        for world, trail in frontier:
            count.states += 1
            for name, holds in SOMETIMES.items():
                count.met[name] += holds(world)
            is_late = count.states % 256 == 0 and time.process_time() - began > seconds_max
            if is_late or count.states >= states_max:
                count.seconds = time.process_time() - began
                return count
            level += _expand(world, trail, bounds, seen, count)
        frontier = level
        count.depth += bool(level)
    count.seconds = time.process_time() - began
    count.is_complete = True
    return count


def _expand(
    world: World, trail: Trail, bounds: Bounds, seen: set[int], count: Count
) -> list[tuple[World, Trail]]:
    found: list[tuple[World, Trail]] = []
    label = ""
    try:
        for label, after in world.successors(bounds):
            count.transitions += 1
            count.evaluations.update(after.check())
            count.met["a crash lost records"] += label.startswith("power cut")
            key = after.key()
            if key not in seen:
                seen.add(key)
                found.append((after, (trail, label)))
    except InvariantViolated as broken:
        raise Broken(str(broken), _steps(trail)) from broken
    return found


def _steps(trail: Trail) -> list[str]:
    steps: list[str] = []
    while trail is not None:
        trail, label = trail
        steps.append(label)
    return steps[::-1]
