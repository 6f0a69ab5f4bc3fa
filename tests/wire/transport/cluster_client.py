"""A client of a cluster: connections by address, and calls that are routed to the responsible node and retried until a
deadline.

The trio shell of `trimaran.wire.client.calls`. Not implemented: batching of produced records, groups, sessions; tests
that need them use `call` or `connection_to`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.bootstrap import Address, Bootstrap, parse_bootstrap
from trimaran.wire.client.calls import Ask, Pause, Steps, refresh, routed_call
from trimaran.wire.client.destinations import (
    AnyNode,
    Destination,
)
from trimaran.wire.client.errors import (
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.client.routing import Routing
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.node_connection import (
    CONNECT_SECONDS,
    NodeConnection,
    connect_endpoint,
    open_node_connection,
)

__all__ = [
    "AnyNode",
    "Client",
    "ConnectRefused",
    "ConnectionLost",
    "NodeConnection",
    "RequestTimedOut",
    "VersionMismatch",
    "open_client",
    "open_node_connection",
]

TIMEOUT_SECONDS = 30.0
# Time limit of an attempt at one node before the next is tried: a stopped process still accepts connections.
ATTEMPT_SECONDS = 10.0


class Client:
    """Made by `open_client`; any number of tasks may use it."""

    def __init__(
        self,
        routing: Routing,
        nursery: trio.Nursery,
        client_id: str | None,
        rng: random.Random,
        *,
        copy_records: bool,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._security = security
        self.routing = routing
        self._nursery = nursery
        self._client_id = client_id
        self._rng = rng
        self._copy_records = copy_records
        # One for each node and bootstrap address.
        self._connections: dict[Address, NodeConnection] = {}
        self._connecting: dict[Address, trio.Lock] = {}

    async def call(
        self,
        request: Message,
        to: Destination | None = None,
        *,
        version: int | None = None,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109 - it has an error of its own
        attempt_timeout: float = ATTEMPT_SECONDS,
        retry_unknown: bool = True,
    ) -> Any:
        """Calls the node that `to` names (None: any) until it responds without a routing error; see `routed_call`.

        A node that does not respond within `attempt_timeout` is disconnected: long polls, which would block other
        calls, need a connection of their own (`open_node_connection`).

        Raises:
            RequestTimedOut: not within `timeout` seconds; the last failure is its cause.
            VersionMismatch: the node does not serve it.
            ConnectionLost: only without `retry_unknown`.
            RemoteProtocolError: never; a node that sends an invalid response is disconnected and called again.
        """
        steps = routed_call(
            self.routing,
            request,
            AnyNode() if to is None else to,
            self._backoff(),
            version=version,
            retry_unknown=retry_unknown,
        )
        return await self._drive(steps, timeout, attempt_timeout, type(request).__name__)

    async def refresh(
        self,
        topics: Iterable[str] | None = (),
        *,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> Any:
        """Looks up the nodes, the controller and the leaders of `topics` (None: of all); returns the response."""
        names = None if topics is None else list(topics)
        steps = refresh(self.routing, names, self._backoff())
        return await self._drive(steps, timeout, ATTEMPT_SECONDS, "refresh")

    async def connection_to(
        self,
        address: Address,
        *,
        timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109
    ) -> NodeConnection:
        """Returns an open connection to `address`, shared with every other caller.

        Raises:
            ConnectRefused, ConnectionLost, RequestTimedOut, VersionMismatch: none could be made.
        """
        async with self._connecting.setdefault(address, trio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed.is_set():
                self._connections.pop(address, None)
                connection = await self._connect(address, timeout)
                self._connections[address] = connection
            return connection

    async def _connect(self, address: Address, timeout: float) -> NodeConnection:  # noqa: ASYNC109
        endpoint = await connect_endpoint(*address, self._security, timeout=timeout)
        connection = NodeConnection(
            endpoint, address, self._client_id, copy_records=self._copy_records
        )
        self._nursery.start_soon(connection.run)
        try:
            await connection.negotiate(timeout, self._security)
        except BaseException:
            connection.close()
            raise
        return connection

    def _backoff(self) -> ExponentialBackoff:
        return ExponentialBackoff(uniform=self._rng.random)

    async def _drive(
        self,
        steps: Steps,
        timeout: float,  # noqa: ASYNC109
        attempt_timeout: float,
        name: str,
    ) -> Any:
        deadline = trio.current_time() + timeout
        last: Exception | None = None
        with trio.move_on_at(deadline):
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Pause):
                        last = step.because
                        await trio.sleep(step.seconds)
                        step = steps.send(None)
                        continue
                    try:
                        left = deadline - trio.current_time()
                        response = await self._ask(step, min(left, attempt_timeout))
                    except (ConnectionLost, RequestTimedOut) as error:
                        last = error
                        step = steps.throw(_as_lost(error))
                    else:
                        step = steps.send(response)
            except StopIteration as stop:
                return stop.value
        raise RequestTimedOut(f"{name}: no answer within {timeout} s ({last})") from last

    async def _ask(self, step: Ask, timeout: float) -> Any:  # noqa: ASYNC109
        connection = await self.connection_to(step.address, timeout=min(timeout, CONNECT_SECONDS))
        try:
            return await connection.call(step.request, version=step.version, timeout=timeout)
        except RequestTimedOut:
            connection.close()
            raise


def _as_lost(error: ConnectionLost | RequestTimedOut) -> ConnectionLost:
    """Treats a node that does not answer ApiVersions as not connected."""
    return error if isinstance(error, ConnectionLost) else ConnectionLost(str(error))


@asynccontextmanager
async def open_client(
    bootstrap: str | Iterable[Address],
    *,
    client_id: str | None = None,
    of_controllers: bool = False,
    copy_records: bool = True,
    rng: random.Random | None = None,
    security: ClientSecurity = PLAINTEXT,
) -> AsyncIterator[Client]:
    """Yields a client, which connects when it is first used, and is closed at the end of the block.

    Args:
        bootstrap: `host:port,…` or addresses.
        client_id: the name in logs and metrics of nodes.
        of_controllers: the addresses are of controllers (Kafka's `--bootstrap-controller`).
        copy_records: as in `open_node_connection`.
        rng: for jitter, and for the first address of `bootstrap`.
        security: TLS and SASL, for every node.

    Raises:
        ValueError: `bootstrap` is not a list of addresses.
    """
    rng = rng or random.Random()
    addresses = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
    ring = Bootstrap(addresses, start=rng.randrange(len(addresses)))
    routing = Routing(ring, of_controllers=of_controllers)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield Client(
                routing, nursery, client_id, rng, copy_records=copy_records, security=security
            )
        except Exception as error:  # noqa: BLE001 - raised below: out of a nursery it would come in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
