"""Work on all groups and offsets of a shard, possibly a million, in pieces on a timer.

A walk is a generator that yields a record to write, or None after each item that needs no record. It continues after
its records were written and replayed, and after requests may have changed the state: it reads the current state of each
item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from trimaran.broker.groups.records import GroupRecord

Walk = Iterator[GroupRecord | None]

# The limits of a piece, about 5 ms each. Encoding, appending and replaying a tombstone takes 11 µs.
LOOKED_PER_PIECE = 2_000
RECORDS_PER_PIECE = 500


class Walks:
    """A queue of walks, which run one after the other."""

    def __init__(self) -> None:
        self._walks = deque[Walk]()

    def __bool__(self) -> bool:
        return bool(self._walks)

    def add(self, walk: Walk) -> None:
        """Adds a walk, which begins when the previous ones have ended."""
        self._walks.append(walk)

    def clear(self) -> None:
        """Drops all walks."""
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
