"""One authentication by one SASL mechanism, seen from either side: tokens in, tokens out, independent of Kafka's
requests.

Source: RFC 4422; `SaslServer` and `SaslClient` of Java, as Kafka uses them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from trimaran.wire.security.principal import Principal


class AuthenticationFailed(Exception):
    """The peer did not prove its identity. The text is sent to it and reveals nothing that it does not know."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The mechanism wants another token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The peer is `principal`; `token` is the last word of the mechanism.

    `lifetime_ms`: what is left of the credential's life; None for ever.
    """

    principal: Principal
    token: bytes
    lifetime_ms: int | None = None


class Exchange(Protocol):
    """The server's side of one authentication."""

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Takes a token of the peer.

        Raises:
            AuthenticationFailed: the peer is refused.
        """


# The client's side: yields tokens, is sent what the node answers, ends when the node has proved what it must.
Tokens = Generator[bytes, bytes, None]


class ClientMechanism(Protocol):
    """A client's mechanism, for any number of connections."""

    @property
    def mechanism(self) -> str:
        """The name in SaslHandshake."""

    @property
    def blocks(self) -> bool:
        """Whether `prepare` may wait for a file or another server, and so belongs into a thread."""

    def prepare(self) -> None:
        """Called before each `exchange`.

        Raises:
            AuthenticationRefused: there is nothing to log in with.
        """

    def exchange(self) -> Tokens:
        """One login.

        Raises:
            AuthenticationRefused: the node has not proved itself, or says no in the mechanism's own words.
        """
