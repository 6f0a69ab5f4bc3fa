"""Work that is done in pieces, so that the event loop is never blocked for long."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")

Work = Generator[None, None, R]
"""Work in pieces of a few milliseconds at most; the generator returns the result."""


def done(work: Work[R]) -> R:
    """Runs all pieces of work without a pause, and returns the result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: R = stop.value
            return result
