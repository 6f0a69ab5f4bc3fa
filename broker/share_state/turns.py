"""Turns of the decisions about a share partition: each turn begins when the turns before it have ended.

A write of many batches is decided in steps, and starts over if the state changes in between. During a turn no other
request can change the state, so a write always ends, even if the same share partition is written to very often.
"""

from __future__ import annotations

from collections import deque

import trio

from trimaran.wire.identity import SharePartitionKey


class Turns:
    """The turns of all share partitions. A share partition without a decision in progress takes no memory."""

    def __init__(self) -> None:
        self._queues: dict[SharePartitionKey, deque[ShareTurn]] = {}

    def take(self, key: SharePartitionKey) -> ShareTurn:
        """Returns the turn after all that were taken for the same share partition. `ShareTurn.end` must be called."""
        queue = self._queues.setdefault(key, deque())
        turn = ShareTurn(self, key, is_first=not queue)
        queue.append(turn)
        return turn

    def end(self, turn: ShareTurn) -> None:
        """Removes a turn, whether it has begun or not. If it had begun, the next one begins."""
        queue = self._queues[turn.key]
        queue.remove(turn)
        if queue:
            queue[0].begin()
        else:
            del self._queues[turn.key]

    def __len__(self) -> int:
        """Returns the number of share partitions with a turn."""
        return len(self._queues)


class ShareTurn:
    """One turn: `wait` until it has begun, decide, `end`."""

    __slots__ = ("_begun", "_turns", "key")

    def __init__(self, turns: Turns, key: SharePartitionKey, *, is_first: bool) -> None:
        self._turns, self.key = turns, key
        self._begun: trio.Event | None = None if is_first else trio.Event()

    @property
    def has_begun(self) -> bool:
        return self._begun is None or self._begun.is_set()

    def begin(self) -> None:
        if self._begun is not None:
            self._begun.set()

    async def wait(self) -> None:
        """Returns when the turn has begun."""
        if self._begun is not None:
            await self._begun.wait()

    def end(self) -> None:
        self._turns.end(self)
