"""Work over all groups and offsets of a shard, of which there may be a million: a piece at a time, on a timer.

A walk is a generator that yields a record to be written, or None when it has looked at one thing more. It goes on when
what it gave is written and replayed, and when requests have changed the state: it looks again at what each thing has
become since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from trimaran.broker.groups.records import GroupRecord

Walk = Iterator[GroupRecord | None]

# The limits of a piece: some 5 ms each. A tombstone is encoded, appended and replayed in 11 µs.
LOOKED_PER_PIECE = 2_000
RECORDS_PER_PIECE = 500


class Walks:
    """One after the other, in the order in which they were begun."""

    def __init__(self) -> None:
        self._walks = deque[Walk]()

    def __bool__(self) -> bool:
        return bool(self._walks)

    def add(self, walk: Walk) -> None:
        """Begins when those before have ended."""
        self._walks.append(walk)

    def clear(self) -> None:
        """Gives all up."""
        self._walks.clear()

    def piece(self) -> list[GroupRecord]:
        """Returns the records of the next piece."""
        records: list[GroupRecord] = []
        for _ in range(LOOKED_PER_PIECE):
            if not self._walks or len(records) == RECORDS_PER_PIECE:
                break
            try:
                record = next(self._walks[0])
            except StopIteration:
                self._walks.popleft()
                continue
            if record is not None:
                records.append(record)
        return records
