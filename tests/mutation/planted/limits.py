"""Rules that `tests/mutation/test_mutation.py` mutates; `test_limits.py` in this folder covers some of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

TOP = 3
ONLY_IN_A_CLASS = 4


def held(value: int) -> int:
    """Bounds the value; every mutation of this fails a test."""
    return min(value, TOP)


def half_held(value: int) -> str:
    """Names the size; no test checks the boundary."""
    if value > 5:
        return "much"
    return "little"


def unreached(value: int) -> bool:
    return value < 0


def counted(end: int) -> int:
    """Counts up; the mutant that counts down never ends."""
    found = 0
    while found < end:
        found += 1
    return found


def above(limit: int) -> Callable[[int], bool]:
    """Returns a check; that of `ABOVE_TOP` was made when this module was imported."""

    def check(value: int) -> bool:
        return value > limit

    return check


ABOVE_TOP = above(TOP)


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    notes.append("in")
    yield
    notes.append("out")


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int
    unit: int = ONLY_IN_A_CLASS

    @property
    def is_empty(self) -> bool:
        return not self.start < self.end

    async def last(self) -> int:
        return self.end - 1
