"""An advertised listener of a node, and the numbers of security protocols. Source: Kafka's `Endpoint`,
`SecurityProtocol`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
PROTOCOL_NUMBERS = {name: number for number, name in SECURITY_PROTOCOLS.items()}


class Endpoint(NamedTuple):
    """One advertised listener of a node; `security_protocol` is one of `SECURITY_PROTOCOLS`."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


# Bounds of endpoints, which are stored in the log and in every snapshot, and to which nodes try to connect
# indefinitely: no DNS name is longer, and no node has more listeners.
HOST_CHARS_MAX = 255
LISTENERS_MAX = 32
_PORT_MAX = 65535


class AnyEndpoint(Protocol):
    """The fields common to endpoints in all messages."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def endpoints_problem(endpoints: Sequence[AnyEndpoint]) -> str | None:
    """Returns a description of the fault in these listeners, or None. Listener names are compared
    case-insensitively.
    """
    names = [endpoint.name.upper() for endpoint in endpoints]
    if len(endpoints) > LISTENERS_MAX:
        return f"there are {len(endpoints)} listeners, and {LISTENERS_MAX} are allowed"
    if not all(names) or len(set(names)) != len(names):
        return "the listeners need a name each"
    if max(map(len, names), default=0) > HOST_CHARS_MAX:
        return f"the name of a listener has more than {HOST_CHARS_MAX} characters"
    for endpoint in endpoints:
        is_host = endpoint.host.isprintable() and " " not in endpoint.host
        if not 0 < len(endpoint.host) <= HOST_CHARS_MAX or not is_host:
            return f"the host of listener {endpoint.name} has 1 to {HOST_CHARS_MAX} characters and no space"
        if not 0 < endpoint.port <= _PORT_MAX:
            return f"the port of listener {endpoint.name} is {endpoint.port}"
    return None
