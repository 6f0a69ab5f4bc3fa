"""Pauses of loops with little work for each item: a pause after each item would cost more than the item.

A generator yields from the next element after each item, without a call of Python and without a counter of its own:

    pause = pauses(100)
    for item in items:
        ...
        yield from next(pause)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import cycle
from typing import TypeAlias

Pauses: TypeAlias = Iterator[tuple[None, ...]]


def pauses(items: int) -> Pauses:
    """Returns an endless iterator: each element is empty, except every `items`-th one, which is a pause."""
    return cycle(_round(items))


@cache
def _round(items: int) -> list[tuple[None, ...]]:
    return [()] * (items - 1) + [(None,)]
