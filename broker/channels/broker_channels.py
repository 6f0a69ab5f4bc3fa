"""Requests from this broker to any other broker, over one connection to each broker in use.

Source: `InterBrokerSendThread` of Kafka, which runs one thread with its own network client for each purpose.
"""

from __future__ import annotations

from typing import Any, Protocol

import trio

from trimaran.broker.channels.broker_channel import BrokerChannel, ChannelLimits, NotSent
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.channels.tasks import Tasks
from trimaran.wire.identity import BrokerId
from trimaran.wire.schema import Message


class Channels(Protocol):
    """The part of `BrokerChannels` that coordinators need."""

    async def run(self, task_status: trio.TaskStatus[None] = ...) -> None: ...

    async def call(self, broker_id: BrokerId, request: Message, *, timeout: float) -> Any: ...  # noqa: ASYNC109


class BrokerChannels:
    """The channels to all brokers; `run` keeps the connections, and any number of tasks may use `call` meanwhile."""

    def __init__(self, connector: BrokerConnector, limits: ChannelLimits) -> None:
        self._connector = connector
        self._limits = limits
        # Bounded by the brokers of the cluster; unused channels are removed.
        self._channels: dict[BrokerId, BrokerChannel] = {}
        self._tasks = Tasks()

    def __len__(self) -> int:
        """Returns the number of brokers with a connection or an attempt to connect."""
        return len(self._channels)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; waiting requests then fail with NotSent or OutcomeUnknown."""
        await self._tasks.run(task_status)

    async def call(self, broker_id: BrokerId, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Returns the response of broker `broker_id` within `timeout` seconds; errors in the response are for the
        caller.

        Requests to one broker are sent in the order of the calls. A call after a failure waits for the channel's
        backoff.

        Raises:
            NotSent: there was no connection, no common version, no room or no time left; the broker has not received
            the
                request.
            OutcomeUnknown: no answer arrived, and it is unknown whether the request was executed.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            if not self._tasks.are_running:
                raise NotSent(f"broker {broker_id}: this broker stops")
            channel = BrokerChannel(broker_id, self._connector, self._limits)
            self._channels[broker_id] = channel
            self._tasks.start_soon(self._keep, broker_id, channel)
        return await channel.call(request, timeout=timeout)

    async def _keep(self, broker_id: BrokerId, channel: BrokerChannel) -> None:
        try:
            await channel.run()
        finally:
            del self._channels[broker_id]
