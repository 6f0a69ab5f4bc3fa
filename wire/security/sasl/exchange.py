"""One authentication by a SASL mechanism, for both sides: tokens in, tokens out, independent of Kafka's requests.

Source: RFC 4422; `SaslServer` and `SaslClient` of Java, as Kafka uses them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from trimaran.wire.security.principal import Principal


class AuthenticationFailed(Exception):
    """The peer did not prove its identity. The text is sent to the peer, and reveals only facts that the peer already
    knows.
    """


@dataclass(frozen=True, slots=True)
class Challenge:
    """The mechanism needs another token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The result: the peer is `principal`; `token` is the mechanism's last token.

    `lifetime_ms` is the remaining lifetime of the credential; None if unlimited.
    """

    principal: Principal
    token: bytes
    lifetime_ms: int | None = None


class Exchange(Protocol):
    """The server's side of one authentication."""

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Evaluates a token of the peer.

        Raises:
            AuthenticationFailed: the peer is refused.
        """


# The client's side: yields tokens, receives the node's answers, and ends when the node has proved its identity, if that
# is required.
Tokens = Generator[bytes, bytes, None]


class ClientMechanism(Protocol):
    """A client's mechanism, for any number of connections."""

    @property
    def mechanism(self) -> str:
        """Returns the name in SaslHandshake."""

    @property
    def blocks(self) -> bool:
        """Whether `exchange` may wait for a file or another server before it returns: it belongs in a thread then."""

    def exchange(self, host: str, /) -> Tokens:
        """Returns the exchange of one login to the node that was connected as `host`.

        Raises:
            AuthenticationRefused: there are no credentials to log in with; or, from the exchange: the node has not
            proved its identity, or refuses the login with a message of the mechanism.
        """
