"""Errors of a call to a node. Error codes of a node are not among them: they are `KafkaError` or in the response."""

from __future__ import annotations


class ConnectionLost(Exception):
    """No connection, or it broke before the answer came: what the request did is unknown."""


class ConnectRefused(ConnectionLost):
    """Every address of the node refused a new connection: the process is gone, and nothing was sent."""


class AuthenticationRefused(ConnectionLost):
    """TLS or SASL says no: the peer is not who it should be, or does not take us for whom we say; trying
    again is vain.
    """


class RequestTimedOut(Exception):
    """No answer in time: what the request did is unknown. `__cause__` is the last failure, if there was one."""


class VersionMismatch(Exception):
    """The node does not serve the request in any version that we speak; nothing was sent."""
