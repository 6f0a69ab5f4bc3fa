"""The broker's only connection to the active controller.

Source: `NodeToControllerChannelManager` of Kafka. It follows the quorum's leader: when the leader changes or the
connection breaks, the next call uses the new one. The quorum's driver is notified of a controller that refuses
connections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import trio

from trimaran.node.runtime.latest import Latest
from trimaran.quorum.raft.listener import LeaderAndEpoch
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.errors import (
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode, KafkaError, LocalProtocolError
from trimaran.wire.identity import Address, NodeId
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.node_connection import NodeConnection, open_node_connection

log = logging.getLogger(__name__)

# The first and last delay after a refused connection or NOT_CONTROLLER, until the quorum's leader changes. The delay
# doubles up to the maximum, at which a hundred waiting brokers cost a controller a tenth of its time.
PAUSE_SECONDS = 0.01
PAUSE_SECONDS_MAX = 0.1


class ControllerCalls(Protocol):
    """The part of `ControllerChannel` that most callers need."""

    async def call(self, request: Message, *, timeout: float) -> Message: ...  # noqa: ASYNC109


class ControllerChannel:
    """The channel to the active controller. `leader` is the quorum's leader; `address_of` returns a controller's
    address (None while unknown); `gone` is called for a controller that now refuses connections after having accepted
    them.
    """

    def __init__(
        self,
        leader: Latest[LeaderAndEpoch],
        address_of: Callable[[NodeId], Address | None],
        gone: Callable[[NodeId], object],
        client_id: str,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._security = security
        self._leader = leader
        self._address_of = address_of
        self._gone = gone
        self._client_id = client_id
        self._connection: Latest[NodeConnection | None] = Latest(None)
        self._reached: Address | None = None

    async def run(self) -> None:
        """Keeps a connection to the active controller, and reconnects until cancelled."""
        backoff = ExponentialBackoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while True:
            leader = await self._leader.wait_for(lambda value: value.leader_id is not None)
            assert leader.leader_id is not None
            address = self._address_of(leader.leader_id)
            if address is not None and await self._serve(leader, address):
                backoff.succeeded()
            else:
                with trio.move_on_after(backoff.failed()):
                    await self._leader.wait_not(leader)

    async def _serve(self, leader: LeaderAndEpoch, address: Address) -> bool:
        """Keeps a connection to `leader` until the leader changes or the connection ends; returns whether it was
        established.
        """
        connected = False
        try:
            async with open_node_connection(
                *address, client_id=self._client_id, security=self._security
            ) as connection:
                connected, self._reached = True, address
                self._connection.set(connection)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._until_leader_changes, leader, nursery.cancel_scope)
                    await connection.closed.wait()
                    nursery.cancel_scope.cancel()
        except (ConnectionLost, RequestTimedOut, VersionMismatch) as error:
            log.debug("no connection to controller %s: %s", leader.leader_id, error)
            is_gone = isinstance(error, ConnectRefused) and self._reached == address
            if is_gone and leader.leader_id is not None:
                self._gone(leader.leader_id)
        finally:
            self._connection.set(None)
        return connected

    async def _until_leader_changes(self, leader: LeaderAndEpoch, scope: trio.CancelScope) -> None:
        await self._leader.wait_not(leader)
        scope.cancel()

    async def call(self, request: Message, *, timeout: float) -> Message:  # noqa: ASYNC109
        """Sends a request to the active controller, which may change within `timeout` seconds, and returns the
        response.

        A request may be sent twice when a connection breaks, so it must be idempotent.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, also if no controller within the timeout serves the request in a suitable
                version. Errors inside the response are for the caller, except NOT_CONTROLLER.
        """
        backoff = ExponentialBackoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        why = ""
        deadline = trio.current_time() + timeout
        while (left := deadline - trio.current_time()) > 0:
            connection, pause = self._connection.value, left
            if connection is not None:
                try:
                    response: Message = await connection.call(request, timeout=left)
                except ConnectionLost:
                    pass
                except RequestTimedOut:
                    break
                except (VersionMismatch, LocalProtocolError) as error:
                    why = f" ({error})"
                    pause = min(left, backoff.failed())
                else:
                    if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                        return response
                    pause = min(left, backoff.failed())
            with trio.move_on_after(pause):
                await self._connection.wait_not(connection)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"no answer from the controller in {timeout:.1f} s{why}"
        )
