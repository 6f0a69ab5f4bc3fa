"""The verdicts of one direction that wait to be carried out, limited in bytes."""

from __future__ import annotations

from collections import deque

import trio

from trimaran.faults.verdicts import RelayVerdict, SendFrame, SendPart

# The maximum size of the frames that wait in one direction; above it the other side is not read.
WAITING_BYTES_MAX = 4 << 20


class VerdictQueue:
    """A queue between the task that reads one side and the task that writes the other one."""

    def __init__(self) -> None:
        self._verdicts: deque[RelayVerdict] = deque()
        self._bytes = 0
        self._is_closed = False
        self._added = trio.Event()
        self._taken = trio.Event()

    def add(self, verdicts: tuple[RelayVerdict, ...]) -> None:
        if verdicts:
            self._verdicts += verdicts
            self._bytes += sum(map(_size_of, verdicts))
            self._added.set()

    def close(self) -> None:
        """Notes that nothing more will be added."""
        self._is_closed = True
        self._added.set()

    async def wait_room(self) -> None:
        """Waits until fewer bytes wait than the bound; the readers of both sides may wait."""
        while self._bytes > WAITING_BYTES_MAX:
            if self._taken.is_set():
                self._taken = trio.Event()
            await self._taken.wait()

    def has_frame(self) -> bool:
        """Whether the next verdict sends a whole frame."""
        return bool(self._verdicts) and isinstance(self._verdicts[0], SendFrame)

    async def take(self) -> RelayVerdict | None:
        """Returns the next verdict, when there is one; None at the end."""
        while not self._verdicts:
            if self._is_closed:
                return None
            self._added = trio.Event()
            await self._added.wait()
        return self.take_nowait()

    def take_nowait(self) -> RelayVerdict | None:
        """Returns the next verdict; None if there is none now."""
        if not self._verdicts:
            return None
        verdict = self._verdicts.popleft()
        self._bytes -= _size_of(verdict)
        self._taken.set()
        return verdict


def _size_of(verdict: RelayVerdict) -> int:
    return len(verdict.frame) if isinstance(verdict, SendFrame | SendPart) else 0
