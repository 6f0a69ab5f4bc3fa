"""The connection to one other broker, and its requests in order.

Source: `InterBrokerSendThread` and `NetworkClient` of Kafka. The requests of one channel are sent in the order of the
calls. A sent request is never repeated here: only the caller knows whether that is harmless.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import trio

from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.identity import BrokerId
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import NodeConnection
from trimaran.wire.transport.scheduling.events import AutoResetEvent

_CONNECT_FAILURES = (ConnectionLost, RequestTimedOut, VersionMismatch, RemoteProtocolError)


class NotSent(Exception):
    """The broker never received the request: a retry, at this or another broker, cannot execute the request twice."""


class OutcomeUnknown(Exception):
    """The request was sent but not answered: it may have been executed, or may still be executed."""


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of one channel.

    Args:
        in_flight: the maximum number of sent requests without an answer; brokers do not read more from one connection.
        queued: the maximum number of unsent requests; further ones would wait longer than their callers do.
        unsent_bytes: the number of bytes not yet accepted by the kernel above which no further request is encoded.
        response_seconds: the time without any answer to sent requests after which the broker counts as stuck (Kafka's
            request.timeout.ms).
        idle_seconds: the time without a request after which the connection closes; less than the 10 minutes after which
            brokers close an idle connection (connections.max.idle.ms), because such a close could lose a request.
        backoff_seconds_max: the maximum time between attempts to connect.
    """

    in_flight: int = 64
    queued: int = 1_000
    unsent_bytes: int = 1 << 20
    response_seconds: float = 30.0
    idle_seconds: float = 60.0
    backoff_seconds_max: float = 1.0


class _Request:
    """A pending request; `outcome` is the response or the error once `done` is set."""

    __slots__ = ("done", "message", "outcome", "sent")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.sent = False
        self.outcome: Any = None
        self.done = trio.Event()

    def settle(self, outcome: Any) -> None:
        self.outcome = outcome
        self.done.set()


class BrokerChannel:
    """The channel to broker `broker_id`; `run` connects at the first request and returns after a long time without
    requests.
    """

    def __init__(
        self, broker_id: BrokerId, connector: BrokerConnector, limits: ChannelLimits
    ) -> None:
        self._broker_id = broker_id
        self._connector = connector
        self._limits = limits
        self._queue: deque[_Request] = deque()
        self._in_flight = 0
        self._active_at = -inf  # the last answer, or the first request after an idle time
        self._news = AutoResetEvent()
        self._backoff = ExponentialBackoff(
            max_seconds=limits.backoff_seconds_max, uniform=random.random
        )

    async def call(self, message: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Sends a request and returns the response. Raises NotSent, OutcomeUnknown as `BrokerChannels.call` does."""
        if len(self._queue) >= self._limits.queued:
            raise NotSent(f"{len(self._queue)} requests wait for broker {self._broker_id} already")
        request = _Request(message)
        self._queue.append(request)
        self._news.set()
        try:
            with trio.move_on_after(timeout):
                await request.done.wait()
        finally:
            if not request.sent and not request.done.is_set():
                self._queue.remove(request)
        if not request.done.is_set():
            if request.sent:
                raise OutcomeUnknown(f"broker {self._broker_id}: no answer in {timeout} s")
            raise NotSent(f"broker {self._broker_id}: could not be sent in {timeout} s")
        if isinstance(request.outcome, Exception):
            raise request.outcome
        return request.outcome

    async def run(self) -> None:
        """Connects while there are requests to send; returns when the queue is empty, and only raises Cancelled."""
        try:
            while self._queue:
                began, failed = trio.current_time(), True
                try:
                    async with self._connector.connect(self._broker_id) as connection:
                        failed = not await self._serve(connection)
                except _CONNECT_FAILURES as error:
                    self._fail_queued(str(error))
                if trio.current_time() - began > self._limits.backoff_seconds_max:
                    self._backoff.succeeded()
                if failed:
                    await trio.sleep(self._backoff.failed())
        finally:
            self._fail_queued("this broker stops")

    def _fail_queued(self, why: str) -> None:
        while self._queue:
            self._queue.popleft().settle(NotSent(f"broker {self._broker_id}: {why}"))

    # -- connected

    async def _serve(self, connection: NodeConnection) -> bool:
        """Returns True when the connection is no longer needed, False when it breaks."""
        self._active_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wake_when_closed, connection)
            while not connection.closed.is_set() and not self._has_served(connection):
                if self._in_flight and trio.current_time() >= self._due():
                    break  # the broker is stuck
                self._send_queued(connection)
                await self._news.wait(self._due())
            nursery.cancel_scope.cancel()
        return not connection.closed.is_set() and not self._in_flight

    async def _wake_when_closed(self, connection: NodeConnection) -> None:
        await connection.closed.wait()
        self._news.set()

    def _due(self) -> float:
        """Returns the time at which the broker counts as stuck or, without requests in flight, the
        connection as idle.
        """
        limits = self._limits
        return self._active_at + (
            limits.response_seconds if self._in_flight else limits.idle_seconds
        )

    def _has_served(self, connection: NodeConnection) -> bool:
        """Whether the connection is idle, or the broker now has another address, to which queued requests must be sent.
        Answers from the old address are lost.
        """
        if self._queue:
            return self._connector.address_of(self._broker_id) != connection.address
        return not self._in_flight and trio.current_time() >= self._due()

    def _send_queued(self, connection: NodeConnection) -> None:
        limits = self._limits
        while (
            self._queue
            and self._in_flight < limits.in_flight
            and connection.unsent_bytes < limits.unsent_bytes
        ):
            request = self._queue[0]
            try:
                connection.ask(request.message, partial(self._answered, request))
            except ConnectionLost:
                return  # nothing was sent: the next connection sends it
            except (VersionMismatch, LocalProtocolError) as error:
                self._queue.popleft().settle(NotSent(f"broker {self._broker_id}: {error}"))
                continue
            self._queue.popleft()
            request.sent = True
            if not self._in_flight:
                self._active_at = trio.current_time()
            self._in_flight += 1

    def _answered(self, request: _Request, response: Any) -> None:
        """Completes a request with its answer, or with the ConnectionLost that replaces it; drops the answer if no
        caller waits for it.
        """
        self._in_flight -= 1
        self._active_at = trio.current_time()
        if isinstance(response, Exception):
            response = OutcomeUnknown(f"broker {self._broker_id}: {response}")
        request.settle(response)
        self._news.set()
