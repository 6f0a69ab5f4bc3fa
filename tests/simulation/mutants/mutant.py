"""The definition of a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.simulation.checker import Violation
from tests.simulation.world import run_seed
from trimaran.quorum.raft.types import InvariantViolated

SURVIVED = "survived"
# Runs without a planted bug that violated nothing. They are kept, because a seed determines its run, and one seed may
# find several bugs.
_SOUND: set[tuple[Callable[..., Any], int, str]] = set()


class Mutant(NamedTuple):
    """A planted bug; `patch` breaks the code while it is entered, and `expected` are the invariants that may detect it
    first.
    """

    name: str
    patch: Callable[[], AbstractContextManager[Any]]
    expected: tuple[str, ...]
    # options of the world, with which the bug can occur
    options: Mapping[str, Any] = MappingProxyType({})
    run_seed: Callable[..., Any] = run_seed


class Outcome(NamedTuple):
    """The outcome of a hunt; `found` is the first word of the first violation, and `seed` the seed with which it
    occurred.
    """

    found: str
    seed: int
    reason: str = ""


def both(*patches: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def hunt(mutant: Mutant, seeds: int) -> Outcome:
    """Runs seed after seed until an invariant is broken.

    Raises:
        Violation: the seed violates an invariant without the planted bug, too, so it has found a real bug.
    """
    found = _hunt(mutant, seeds)
    run = (mutant.run_seed, found.seed, repr(mutant.options))
    if found.found != SURVIVED and run not in _SOUND:
        mutant.run_seed(found.seed, **mutant.options)
        _SOUND.add(run)
    return found


def _hunt(mutant: Mutant, seeds: int) -> Outcome:
    with mutant.patch():
        for seed in range(1, seeds + 1):
            try:
                mutant.run_seed(seed, **mutant.options)
            except (Violation, InvariantViolated) as found:
                return Outcome(str(found).split()[0], seed, str(found))
            except Exception as found:  # noqa: BLE001 - a crash is no finding of an invariant
                return Outcome(type(found).__name__, seed, str(found))
    return Outcome(SURVIVED, seeds)
