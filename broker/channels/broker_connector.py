"""A connection from this broker to another: where metadata says that it listens for brokers, secured as the
configuration says.

Followers fetch on one of their own (`trimaran.broker.replication`), as a long poll holds up what comes behind it;
everything else shares one (`trimaran.broker.channels.broker_channels`).
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
    """Metadata names no such broker, or no endpoint of it on the listener between brokers: nothing was sent."""


class Connector(Protocol):
    """Connects a follower with its leader."""

    def connect(
        self, broker_id: BrokerId, *, copy_records: bool = True
    ) -> AbstractAsyncContextManager[Any]: ...


@dataclass(frozen=True, slots=True)
class BrokerConnector:
    """`address_of` returns the newest address of a broker; each attempt calls it, so a broker that moved is found."""

    address_of: Callable[[int], Address | None]
    client_id: str
    security: ClientSecurity = PLAINTEXT

    def connect(
        self, broker_id: BrokerId, *, copy_records: bool = True
    ) -> AbstractAsyncContextManager[NodeConnection]:
        """As `open_node_connection`. Raises BrokerUnknown."""
        address = self.address_of(broker_id)
        if address is None:
            raise BrokerUnknown(f"metadata knows no endpoint of broker {broker_id} for brokers")
        return open_node_connection(
            *address,
            client_id=self.client_id,
            copy_records=copy_records,
            security=self.security,
        )
