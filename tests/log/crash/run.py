"""Many lives, and a crash after every file operation of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.log.crash.check import Violation, check_tree
from tests.log.crash.life import Life
from tests.log.power_loss import Disk, Style

STEPS = 40


@dataclass
class Tally:
    """Number of attempts, and the violations found."""

    lives: int = 0
    steps: int = 0
    operations: int = 0
    prefixes: int = 0
    states: int = 0
    by_style: Counter[Style] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def crash_life(
    life: Life, scratch: Path, tally: Tally, prng: Random, *, share: float, enough: int
) -> None:
    """Crashes after each of the life's operations, or a random `share` of them, in two styles each. Ends after `enough`
    failures.
    """
    disk = Disk(life.files.recording)
    tally.lives += 1
    tally.steps += len(life.steps)
    tally.operations += len(life.files.recording.operations)
    steps = iter(life.steps)
    step = next(steps)
    for number, operation in enumerate(life.files.recording.operations):
        disk.apply(operation)
        while number >= step.end:
            following = next(steps, None)
            if following is None:
                return
            step = following
        if number < step.first or prng.random() >= share:
            continue
        if len(tally.failures) >= enough:
            return
        tally.prefixes += 1
        for style in prng.sample(list(Style), 2):
            tally.by_style[style] += 1
            own = Random(f"{life.seed} {number} {style.name}")
            try:
                tally.states += check_tree(life, step, disk.after(style, own), scratch, own)
            except Violation as violation:
                tally.failures.append(f"{step.name}, operation {number}, {style.name}: {violation}")
            except Exception as error:  # noqa: BLE001 - whatever recovery raises is a failure
                tally.failures.append(f"{step.name}, operation {number}, {style.name}: {error!r}")


def run_seed(
    seed: int, scratch: Path, tally: Tally, *, share: float = 1.0, enough: int = 1000
) -> None:
    """Runs one life below the empty directory `scratch`."""
    home = scratch / f"life-{seed}"
    home.mkdir(parents=True)
    life = Life(home, seed).run(STEPS)
    crash_life(life, scratch / "crashed", tally, Random(seed), share=share, enough=enough)
