"""A connection from this broker to another one, at the address in the metadata and with the configured security.

Followers fetch over connections of their own (`trimaran.broker.replication`), because a long poll delays the requests
behind it; all other requests to a broker share one connection (`trimaran.broker.channels.broker_channels`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.node_connection import NodeConnection, open_node_connection


class BrokerUnknown(ConnectionLost):
    """The metadata has no such broker, or no endpoint of it on the inter-broker listener: nothing was sent."""


class Connector(Protocol):
    """The interface that connects a follower to its leader."""

    def connect(
        self, broker_id: BrokerId, *, copy_records: bool = True
    ) -> AbstractAsyncContextManager[Any]: ...


@dataclass(frozen=True, slots=True)
class BrokerConnector:
    """Connects to other brokers. `address_of` returns the newest address of a broker; each attempt calls it, so that a
    broker that has moved is found.
    """

    address_of: Callable[[int], Address | None]
    client_id: str
    security: ClientSecurity = PLAINTEXT

    def connect(
        self, broker_id: BrokerId, *, copy_records: bool = True
    ) -> AbstractAsyncContextManager[NodeConnection]:
        """Connects as `open_node_connection` does. Raises BrokerUnknown."""
        address = self.address_of(broker_id)
        if address is None:
            raise BrokerUnknown(f"metadata knows no endpoint of broker {broker_id} for brokers")
        return open_node_connection(
            *address,
            client_id=self.client_id,
            copy_records=copy_records,
            security=self.security,
        )
