"""Keeps the garbage collector from walking again and again what is there to stay.

A full collection looks at every container of the process and holds the loop meanwhile: 130 ms with 100,000 partitions
in an image. Images have no
cycles: what they leave behind is freed by counting references, frozen or not. The price of freezing: cyclic garbage
of others that exists at that moment is never freed; that is a little, once in `OBJECTS_MAX`.
"""

from __future__ import annotations

import gc

# Walked in 10 to 20 ms.
OBJECTS_MAX = 10_000


class LongLived:
    """Counts objects that were made to stay, and takes them out of the collector's sight when there are many."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        if self._count >= OBJECTS_MAX:
            gc.freeze()
            self._count = 0
