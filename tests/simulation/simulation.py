"""The runner of seeds for all simulations: the interface of a world, the statistics of many runs, and the transcript of
one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.simulation.world import Result


class Tellable(Protocol):
    """A world; `trace` is None, or a list that gets a line for each event."""

    now: float
    trace: list[str] | None

    def run(self) -> Result: ...


@dataclass(frozen=True)
class Simulation:
    """A kind of simulation. The runs prove something only if all `invariants` were evaluated and all events of
    `sometimes` happened.
    """

    world: Callable[..., Tellable]
    run_seed: Callable[..., Result]
    invariants: Sequence[str]
    sometimes: Sequence[str]

    def run_many(self, seeds: range, *, quiet: bool = False, **options: Any) -> list[Result]:
        results = []
        for seed in seeds:
            results.append(self.run_seed(seed, **options))
            if not quiet and len(results) % 200 == 0:
                print(f"… {len(results)} seeds", flush=True)
        return results

    def never(self, results: list[Result]) -> list[str]:
        """Returns the invariants that no counted run evaluated, and the events that happened in none."""
        counted = [result for result in results if result.made_progress]
        evaluated = {name for result in counted for name in result.evaluations}
        happened = {name for result in counted for name in result.faults}
        return [name for name in self.invariants if name not in evaluated] + [
            name for name in self.sometimes if name not in happened
        ]

    def summary(self, results: list[Result]) -> str:
        """Returns the statistics of the runs, without those that had no progress or no faults."""
        counted = [result for result in results if result.made_progress]
        faults: Counter[str] = Counter()
        evaluations: Counter[str] = Counter()
        for result in counted:
            faults += result.faults
            evaluations += result.evaluations
        lines = [
            f"{len(counted)} of {len(results)} runs count (progress and at least one fault)",
            f"{len(results)} seeds run, {sum(r.events for r in results)} events, "
            f"{sum(r.seconds for r in results):.0f} simulated seconds",
            f"acked {sum(r.acked for r in counted)} batches, {sum(r.epochs for r in counted)} epochs",
            "faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())),
            "evaluated: "
            + ", ".join(f"{name} {count}" for name, count in sorted(evaluations.items())),
            "never: " + (", ".join(self.never(results)) or "nothing"),
        ]
        return "\n".join(lines)

    def tell(self, seed: int) -> int:
        """Prints the transcript of one seed, to its end or to the violation; returns the exit status."""
        world = self.world(seed)
        world.trace = []
        try:
            world.run()
        except Exception as failure:  # noqa: BLE001 - what went wrong is the last line
            world.trace.append(f"{world.now:9.4f} {type(failure).__name__}: {failure}")
            print("\n".join(world.trace))
            return 1
        print("\n".join(world.trace))
        return 0
