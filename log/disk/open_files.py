"""A bound on open descriptors: files by name (`log/disk/named_file.py`) are closed again when too many others are open.

Source: the idea of the virtual descriptors of PostgreSQL; Kafka holds all segments open and asks for `ulimit -n
100000`. The choice of what to close is the clock algorithm: what was used since the hand passed last stays for another
round.

A file that is being sent or synced stays open although it is closed here: its users hold the `OpenFile`, and the last
reference closes it. Closing loses nothing that was written; Linux reports an error of writing back to the next fsync,
also by another descriptor (errseq_t), and what waits for a flush is the most recently used there is.
"""

from __future__ import annotations

import resource
import weakref
from collections import deque
from threading import Lock
from typing import Protocol

# Sockets, snapshots that are being sent, checkpoints: a quarter of the process's limit, and this much at the least.
RESERVE_MIN = 256
# A process that is allowed less than the reserve still works, slowly.
OPEN_MIN = 32
# Closed at once when the process has no descriptor left, as more are wanted in a moment.
ROOM_MADE = 64
# Three files for each of 40,000 partitions that are written to at once; more only costs kernel memory.
OPEN_MAX = 120_000


def open_files_max(descriptors: int) -> int:
    """How many of a process's `descriptors` logs may hold."""
    return min(OPEN_MAX, max(OPEN_MIN, descriptors - max(RESERVE_MIN, descriptors // 4)))


class Reopenable(Protocol):
    """A file that may be closed at any time, as its next use opens it again: a
    `trimaran.log.disk.named_file.NamedFile`.
    """

    listed: bool  # the clock knows it
    used: bool  # since the hand passed

    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


class OpenFiles:
    """The clock. `limit` is read from RLIMIT_NOFILE at the first use when not given. Safe for threads."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._hand: deque[weakref.ref[Reopenable]] = deque()
        self._lock = Lock()

    @property
    def limit(self) -> int:
        if self._limit is None:
            self._limit = open_files_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return self._limit

    def note(self, opened: Reopenable) -> None:
        """`opened` has just been opened; others are closed if these are too many now."""
        with self._lock:
            if not opened.listed:
                opened.listed = True
                self._hand.append(weakref.ref(opened))
            # Twice round: the first takes away the marks of use.
            for _ in range(2 * len(self._hand)):
                if len(self._hand) <= self.limit:
                    break
                self._turn(opened)

    def make_room(self) -> bool:
        """The process has no descriptor left: closes some files, whether used or not; says if there were any."""
        closed = 0
        with self._lock:
            while self._hand and closed < ROOM_MADE:
                found = self._hand.popleft()()
                if found is not None:
                    found.listed = False
                    closed += found.is_open
                    found.close()
        return closed > 0

    def _turn(self, opened: Reopenable) -> None:
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
