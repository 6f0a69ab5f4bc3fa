"""How large the benches are: as `docs/benchmarks.md` tells of them, or so small that each takes seconds.

`BENCH_SMALL=1` in the environment makes all of them small, those in processes of their own too. The figures of a small
bench say nothing about speed: they show that the bench runs to its end.
"""

from __future__ import annotations

import os
from typing import TypeVar

Size = TypeVar("Size")

SMALL = os.environ.get("BENCH_SMALL") == "1"


def sized(full: Size, small: Size) -> Size:
    """Returns `full`, or `small` where all benches are small."""
    return small if SMALL else full
