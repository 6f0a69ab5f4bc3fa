"""A bound of open descriptors: files by name (`log/disk/named_file.py`) are closed when too many are open.

Source: the idea of the virtual descriptors of PostgreSQL; Kafka keeps all segments open and requires `ulimit -n
100000`. Files to close are chosen by the clock algorithm: a file used since the hand of the clock last passed is kept
for another round.

A file that is being sent or synced stays open even if it is closed here: its users hold the `OpenFile`, and the last
reference closes it. No written bytes are lost by closing a file; Linux reports a write-back error at the next fsync,
also through another descriptor (errseq_t), and files that wait for a flush are the most recently used ones.
"""

from __future__ import annotations

import resource
import weakref
from collections import deque
from threading import Lock
from typing import Any, Generic, TypeVar

F = TypeVar("F")

# The descriptors reserved for sockets, snapshots being sent and checkpoints: a quarter of the limit of the process, but
# at least this number.
RESERVE_MIN = 256
# The minimum number of files for logs: a process with fewer descriptors than the reserve still works, slowly.
OPEN_MIN = 32
# The number of files closed when the process has no descriptor left, because more will soon be needed.
ROOM_MADE = 64
# The maximum number of files for logs: three for each of 40,000 partitions written at the same time; more files only
# cost kernel memory.
OPEN_MAX = 120_000


def open_files_max(descriptors: int) -> int:
    """Returns the number of descriptors that logs may use, given the `descriptors` of the process."""
    return min(OPEN_MAX, max(OPEN_MIN, descriptors - max(RESERVE_MIN, descriptors // 4)))


class ReopenedFile(Generic[F]):
    """The state of a file that may be closed at any time, because the next use reopens it; open, it is an `F`."""

    __slots__ = ("__weakref__", "_file", "listed", "used")

    def __init__(self) -> None:
        self.listed = False  # registered with the clock
        self.used = False  # used since the hand of the clock last passed
        self._file: F | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def close(self) -> None:
        """Drops the file; it is closed with the last reference."""
        self._file = None


class OpenFiles:
    """The clock. The default of `limit` is derived from RLIMIT_NOFILE at the first use. Thread-safe."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._hand: deque[weakref.ref[ReopenedFile[Any]]] = deque()
        self._lock = Lock()

    @property
    def limit(self) -> int:
        if self._limit is None:
            self._limit = open_files_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return self._limit

    def note(self, opened: ReopenedFile[Any]) -> None:
        """Records that `opened` has just been opened; closes others if there are too many now."""
        with self._lock:
            if not opened.listed:
                opened.listed = True
                self._hand.append(weakref.ref(opened))
            # Two rounds: the first clears the marks of use.
            for _ in range(2 * len(self._hand)):
                if len(self._hand) <= self.limit:
                    break
                self._turn(opened)

    def make_room(self) -> bool:
        """Closes some files, used or not, because the process has no descriptor left; returns whether there were any
        files to close.
        """
        closed = 0
        with self._lock:
            while self._hand and closed < ROOM_MADE:
                found = self._hand.popleft()()
                if found is not None:
                    found.listed = False
                    closed += found.is_open
                    found.close()
        return closed > 0

    def _turn(self, opened: ReopenedFile[Any]) -> None:
        reference = self._hand.popleft()
        found = reference()
        if found is None:
            return
        if found is opened or (found.used and found.is_open):
            found.used = False
            self._hand.append(reference)
            return
        found.listed = False
        found.close()
