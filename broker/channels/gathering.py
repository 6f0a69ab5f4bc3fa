"""Batches items for a broker: items that arrive while requests to it are in flight go into the next request.

Source: Kafka's `AddPartitionsToTxnManager` and `TransactionMarkerChannelManager`, which batch in the same way, each in
a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import trio

from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.tasks import Tasks
from trimaran.wire.identity import BrokerId

T = TypeVar("T")
R = TypeVar("R")

# The maximum number of concurrent requests to one broker: more than one, because a slow request (one that waits for
# replicas, for example) must not delay all others; few, because many small requests would leave nothing to batch.
IN_FLIGHT_MAX = 4
# The maximum number of items in one request, a few hundred bytes each.
ITEMS_MAX = 500


class _Entry(Generic[T, R]):
    __slots__ = ("done", "item", "outcome")

    def __init__(self, item: T) -> None:
        self.item = item
        self.outcome: Any = None
        self.done = trio.Event()

    def settle(self, outcome: Any) -> None:
        self.outcome = outcome
        self.done.set()


class _Destination(Generic[T, R]):
    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: deque[_Entry[T, R]] = deque()  # bounded by the tasks that wait in `ask`


class Gathering(Generic[T, R]):
    """Batches items by broker; `run` sends them, and any number of tasks may use `ask` meanwhile."""

    def __init__(
        self,
        send: Callable[[BrokerId, Sequence[T]], Awaitable[Sequence[R]]],
        key: Callable[[T], Hashable],
    ) -> None:
        """`send` sends items to a broker, no two with the same `key`, and returns their answers in order; it may raise
        NotSent and OutcomeUnknown.
        """
        self._send = send
        self._key = key
        self._destinations: dict[BrokerId, _Destination[T, R]] = {}
        self._tasks = Tasks()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; waiting callers then get NotSent or OutcomeUnknown."""
        await self._tasks.run(task_status)

    async def ask(self, broker_id: BrokerId, item: T) -> R:
        """Sends an item and returns its answer. Raises NotSent, OutcomeUnknown as `BrokerChannels.call` does."""
        if not self._tasks.are_running:
            raise _stops(broker_id)
        destination = self._destinations.get(broker_id)
        if destination is None:
            destination = self._destinations[broker_id] = _Destination[T, R]()
        entry = _Entry[T, R](item)
        destination.waiting.append(entry)
        if destination.in_flight < IN_FLIGHT_MAX:
            destination.in_flight += 1
            self._tasks.start_soon(self._drain, broker_id, destination)
        try:
            await entry.done.wait()
        finally:
            if not entry.done.is_set() and entry in destination.waiting:
                destination.waiting.remove(entry)
        if isinstance(entry.outcome, Exception):
            raise entry.outcome
        response: R = entry.outcome
        return response

    async def _drain(self, broker_id: BrokerId, destination: _Destination[T, R]) -> None:
        try:
            while destination.waiting:
                await self._send_some(broker_id, self._take(destination.waiting))
        except trio.Cancelled:
            while destination.waiting:
                destination.waiting.popleft().settle(_stops(broker_id))
            raise
        finally:
            destination.in_flight -= 1
            if not destination.in_flight and not destination.waiting:
                self._destinations.pop(broker_id, None)

    def _take(self, waiting: deque[_Entry[T, R]]) -> list[_Entry[T, R]]:
        """Removes and returns the next items, no two with the same key; items left for a later request stay in
        order.
        """
        taken: dict[Hashable, _Entry[T, R]] = {}
        left = []
        while waiting and len(taken) < ITEMS_MAX:
            entry = waiting.popleft()
            if self._key(entry.item) in taken:
                left.append(entry)
            else:
                taken[self._key(entry.item)] = entry
        waiting.extendleft(reversed(left))
        return list(taken.values())

    async def _send_some(self, broker_id: BrokerId, entries: list[_Entry[T, R]]) -> None:
        outcomes: Sequence[Any]
        try:
            outcomes = await self._send(broker_id, [entry.item for entry in entries])
        except (NotSent, OutcomeUnknown) as error:
            outcomes = [error] * len(entries)
        except trio.Cancelled:
            for entry in entries:
                entry.settle(OutcomeUnknown(f"broker {broker_id}: this broker stops"))
            raise
        for entry, outcome in zip(entries, outcomes, strict=True):
            entry.settle(outcome)


def _stops(broker_id: BrokerId) -> NotSent:
    return NotSent(f"broker {broker_id}: this broker stops")
