"""The sizes of the benches: as described in `docs/benchmarks.md`, or small enough for each to take seconds.

`BENCH_SMALL=1` in the environment makes all of them small, including those in separate processes. The figures of a
small bench are not measurements of speed: they only show that the bench works.
"""

from __future__ import annotations

import os
from typing import TypeVar

Size = TypeVar("Size")

SMALL = os.environ.get("BENCH_SMALL") == "1"


def sized(full: Size, small: Size) -> Size:
    """Returns `full`, or `small` if all benches are small."""
    return small if SMALL else full
