"""Errors of a call to a node. Error codes of a node are not among them: they are `KafkaError` or in the response."""

from __future__ import annotations


class ConnectionLost(Exception):
    """There is no connection, or it broke before the answer arrived: the effect of the request is unknown."""


class ConnectRefused(ConnectionLost):
    """Every address of the node refused a new connection: the process has ended, and nothing was sent."""


class AuthenticationRefused(ConnectionLost):
    """TLS or SASL failed: the peer is not the expected one, or does not accept our identity. Retrying is pointless."""


class RequestTimedOut(Exception):
    """No answer arrived in time: the effect of the request is unknown. `__cause__` is the last failure, if any."""


class VersionMismatch(Exception):
    """The node does not serve the request in any version that we support; nothing was sent."""
