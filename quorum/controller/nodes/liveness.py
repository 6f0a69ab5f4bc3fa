"""Probes whether a process still exists by connecting to its listeners.

A refused connection means that no process listens there; a timeout is not evidence.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import NamedTuple

import trio

from trimaran.wire.client.errors import ConnectionLost, ConnectRefused
from trimaran.wire.identity import Address
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.client.node_connection import connect

CONNECT_SECONDS = 1.0
# A dying process closes its sockets one after another, so a listener may stay open a moment longer than the connection
# that broke.
PAUSES_SECONDS = (0.0, 0.01, 0.05)


class ProbeResult(NamedTuple):
    """The result of a probe. `answered` and `refused` are the addresses that accepted and refused the connection;
    `is_down` means that there is an endpoint, and every endpoint refuses.
    """

    answered: frozenset[Address] = frozenset()
    refused: frozenset[Address] = frozenset()
    is_down: bool = False


async def probe(endpoints: Iterable[Endpoint]) -> ProbeResult:
    """Connects to each endpoint, and retries after short pauses while any of them does not refuse."""
    listed = list(endpoints)
    answered: set[Address] = set()
    for pause in PAUSES_SECONDS if listed else ():
        await trio.sleep(pause)
        results = [await _probe_endpoint(endpoint) for endpoint in listed]
        answered.update(*(result.answered for result in results))
        if all(result.is_down for result in results):
            refused = frozenset().union(*(result.refused for result in results))
            return ProbeResult(frozenset(answered), refused, is_down=True)
    return ProbeResult(frozenset(answered))


async def _probe_endpoint(endpoint: Endpoint) -> ProbeResult:
    try:
        found = await connect(endpoint.host, endpoint.port, timeout=CONNECT_SECONDS)
    except ConnectRefused:
        return ProbeResult(refused=await _addresses_of(endpoint), is_down=True)
    except ConnectionLost:
        return ProbeResult()
    with found:
        try:
            host, port = found.getpeername()[:2]
        except OSError:  # closed again immediately
            return ProbeResult()
    return ProbeResult(answered=frozenset({Address(host, port)}))


async def _addresses_of(endpoint: Endpoint) -> frozenset[Address]:
    """Returns all addresses of the name; the endpoint refuses only if all of them do. The result is empty if the name
    does not resolve.
    """
    kind = socket.SOCK_STREAM
    try:
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=kind)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(Address(str(address[0]), int(address[1])) for *_, address in found)
