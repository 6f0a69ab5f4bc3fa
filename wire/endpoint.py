"""Where a node listens: an advertised listener and the numbers of security protocols. Source: Kafka's `Endpoint`,
`SecurityProtocol`.
"""

from __future__ import annotations

from typing import NamedTuple

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
PROTOCOL_NUMBERS = {name: number for number, name in SECURITY_PROTOCOLS.items()}


class Endpoint(NamedTuple):
    """One advertised listener of a node; `security_protocol` is one of `SECURITY_PROTOCOLS`."""

    name: str
    host: str
    port: int
    security_protocol: int = 0
