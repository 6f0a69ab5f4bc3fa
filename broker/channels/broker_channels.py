"""Requests from this broker to any other: a connection for each broker that is in use.

Source: `InterBrokerSendThread` of Kafka, which one thread for each purpose there runs with a network client of its own.
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
    """`run` keeps the connections; `call` may be used by any number of tasks meanwhile."""

    def __init__(self, connector: BrokerConnector, limits: ChannelLimits) -> None:
        self._connector = connector
        self._limits = limits
        # Bounded by the brokers of the cluster; one that is not asked for a while leaves.
        self._channels: dict[BrokerId, BrokerChannel] = {}
        self._tasks = Tasks()

    def __len__(self) -> int:
        """How many brokers are connected to, or tried."""
        return len(self._channels)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; then requests that wait end with what is known of them."""
        await self._tasks.run(task_status)

    async def call(self, broker_id: BrokerId, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        """The response of broker `broker_id`, within `timeout` seconds; errors in it are the caller's.

        Requests to one broker are sent in the order of the calls. To call again after a failure waits as long as the
        channel backs off.

        Raises:
            NotSent: no connection, no version in common, no room, or no time was left; the broker does not know of the
                request.
            OutcomeUnknown: no answer came, and whether it was done is not known.
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
