"""The order in which Java's collections return strings, and their order of equal elements.

Kafka's assignor visits members and processes in the order of a `HashMap`, and takes the least loaded one from a
`PriorityQueue`. The same order gives the same assignment, so that no task moves when a coordinator of the other
implementation takes over. Within one bucket of a table the order is that of insertion; members are inserted sorted by
id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_WORD = 0xFFFFFFFF
_SMALLEST_TABLE = 16


def spread_hash(text: str) -> int:
    """Returns `String.hashCode`, spread as by `HashMap.hash`, as an unsigned number."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        code = (31 * code + (encoded[at] << 8) + encoded[at + 1]) & _WORD
    return code ^ (code >> 16)


def hash_order(put: Iterable[str]) -> list[str]:
    """Returns the order of iteration of a `HashMap` whose keys were inserted in this order with `put`."""
    keys = list(put)
    return _by_bucket(keys, _grown(_SMALLEST_TABLE, len(keys)))


def computed_hash_order(computed: Iterable[str], expected: int) -> list[str]:
    """Returns the order of `new HashMap(expected)` whose keys were inserted in this order with `computeIfAbsent`: that
    method puts a key before the others of its bucket, and lets the table grow only at the next key.
    """
    keys = list(computed)
    table = 1 << max(0, expected - 1).bit_length()
    return _by_bucket(keys[::-1], _grown(table, len(keys) - 1))


def _grown(table: int, count: int) -> int:
    while 4 * count > 3 * table:
        table *= 2
    return table


def _by_bucket(keys: list[str], table: int) -> list[str]:
    return sorted(keys, key=lambda text: spread_hash(text) & (table - 1))


class PriorityQueue(Generic[T]):
    """`java.util.PriorityQueue`: the smallest element comes first; equal elements come in the same order as in Java."""

    def __init__(self, weight: Callable[[T], float], elements: Iterable[T] = ()) -> None:
        self._weight = weight
        self._heap: list[T] = []
        for element in elements:
            self.add(element)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: T) -> None:
        heap, weight = self._heap, self._weight
        mine = weight(element)
        at = len(heap)
        heap.append(element)
        while at > 0:
            parent = (at - 1) >> 1
            if mine >= weight(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = element

    def take(self) -> T:
        """Removes and returns the first element. Raises IndexError if there is none."""
        heap, weight = self._heap, self._weight
        first = heap[0]
        element = heap.pop()
        count = len(heap)
        if not count:
            return first
        mine, at = weight(element), 0
        while at < count >> 1:
            child = 2 * at + 1
            if child + 1 < count and weight(heap[child]) > weight(heap[child + 1]):
                child += 1
            if mine <= weight(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = element
        return first
