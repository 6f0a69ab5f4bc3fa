"""Steps: work on a log that may be too long for one turn of the caller's loop.

A generator yields the amount of work done, in batches with headers read, about 5 to 10 µs each. The state that such a
generator reads may change between two steps; each generator documents how it handles that.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]


class TakesLong(Exception):
    """The work exceeds what the caller allows in one turn; no state was changed."""


def at_once(steps: Steps[T], units_max: int | None = None) -> T:
    """Runs all steps without a pause. Raises TakesLong: more than `units_max` units are needed."""
    done = 0
    while True:
        try:
            done += next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if units_max is not None and done >= units_max:
            steps.close()
            raise TakesLong
