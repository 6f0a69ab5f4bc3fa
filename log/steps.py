"""Work on a log that may be too long for one turn of the caller's loop: a generator yields how much it has done.

The unit is a batch whose header was read, some 5 to 10 µs. The state that such a generator reads may change between two
of its steps; each says what it does then.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]


class TakesLong(Exception):
    """The work is not done after as much as the caller allows in one turn; nothing was changed."""


def at_once(steps: Steps[T], units_max: int | None = None) -> T:
    """Runs to the end. Raises TakesLong: after `units_max` units there was more to do."""
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
