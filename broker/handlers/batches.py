"""Splits the items of a request into batches. Each batch is decided in one step, and its records are written
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

# The number of partitions that fit into a frame decoded in one step (`HEAVY_BYTES`): a typical request is one batch,
# decided in 10 to 20 ms.
PARTITIONS_PER_BATCH = 1000


def in_batches(
    listed: Iterable[tuple[K, Sequence[T]]], size: int = PARTITIONS_PER_BATCH
) -> Iterator[list[tuple[K, Sequence[T]]]]:
    """Yields batches of `size` items with their keys, in order; a key also counts as an item."""
    batch: list[tuple[K, Sequence[T]]] = []
    left = size
    for key, items in listed:
        start = 0
        while True:
            some = items[start : start + left]
            batch.append((key, some))
            start += len(some)
            left -= 1 + len(some)
            if left <= 0:
                yield batch
                batch, left = [], size
            if start >= len(items):
                break
    if batch:
        yield batch
