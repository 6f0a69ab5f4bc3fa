"""Writes in the log whose commit a shard awaits. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimaran.broker.coordination.shard import Write

W = TypeVar("W", bound=Write[Any])


@dataclass(frozen=True, slots=True)
class _Uncommitted(Generic[W]):
    write: W
    end_offset: int
    deadline: float


class UncommittedWrites(Generic[W]):
    """In log order, so offsets and deadlines ascend; as many as a shard writes within one commit timeout."""

    def __init__(self) -> None:
        self._writes: deque[_Uncommitted[W]] = deque()

    def __len__(self) -> int:
        return len(self._writes)

    def add(self, write: W, end_offset: int, deadline: float) -> None:
        """`write` is in the log below `end_offset`; at `deadline`, in monotonic seconds, it is waited for no longer."""
        self._writes.append(_Uncommitted(write, end_offset, deadline))

    def awaited_offset(self) -> int | None:
        """What the high watermark must reach for `pop_committed` to give anything."""
        return self._writes[0].end_offset if self._writes else None

    def pop_committed(self, high_watermark: int) -> list[W]:
        """Those that are committed, in order."""
        committed = []
        while self._writes and self._writes[0].end_offset <= high_watermark:
            committed.append(self._writes.popleft().write)
        return committed

    def deadline(self) -> float | None:
        """When `pop_expired` would give something."""
        return self._writes[0].deadline if self._writes else None

    def pop_expired(self, now: float) -> list[W]:
        """Those that were not committed in time, in order."""
        expired = []
        while self._writes and self._writes[0].deadline <= now:
            expired.append(self._writes.popleft().write)
        return expired
