"""SASL GSSAPI with Kerberos: the messages of both sides, over a context of the Kerberos library.

    client   a token of the context, until the context is established; then an empty token
    server   the offered security layers, wrapped: a bit mask of one byte, the largest message in three bytes
    client   the chosen layer in the same form, then an authorization id, wrapped

Only the layer "none" is offered and chosen: TLS encrypts connections. As in Kafka, the authorization id has no effect,
and the principal is the authenticated one. Clients of Kafka send several values there.

Source: RFC 4752; `GssKrb5Server` and `GssKrb5Client` of OpenJDK, as `SaslServerAuthenticator` of Kafka uses them. See
`trimaran.node.security.kerberos_contexts` for contexts.
"""

from __future__ import annotations

import logging
from typing import Protocol

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.kerberos_names import LocalNames, NoLocalName
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done, Tokens

log = logging.getLogger(__name__)

MECHANISM = "GSSAPI"
# The bit of the layer that leaves messages as they are; the others are integrity (2) and confidentiality (4).
_NO_LAYER = 1
# A layer that does not change messages has no largest message.
_ONLY_NO_LAYER = bytes([_NO_LAYER, 0, 0, 0])
_REFUSED = "invalid credentials with SASL mechanism GSSAPI"


class ContextFailed(Exception):
    """The Kerberos library refuses a token, or gets no ticket. The text is for our own log, or for our own user."""


class SecurityContext(Protocol):
    """One side of a security context. Each method may raise ContextFailed."""

    @property
    def is_established(self) -> bool:
        """Returns whether no further token is needed."""

    @property
    def peer(self) -> str:
        """Returns the full name of the other side, `NAME[/HOST]@REALM`; only if the context is established."""

    def step(self, token: bytes) -> bytes:
        """Consumes a token of the other side; returns the token for it, which may be empty."""

    def wrap(self, message: bytes) -> bytes:
        """Returns the message with its checksum."""

    def unwrap(self, token: bytes) -> bytes:
        """Returns a message of the other side."""


class GssapiExchange:
    """The server's side of one login."""

    def __init__(self, context: SecurityContext, names: LocalNames) -> None:
        self._context = context
        self._names = names
        self._has_offered = False

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Evaluates a token of the client; reads and writes files of the Kerberos library.

        Raises:
            AuthenticationFailed: the text does not depend on the cause, because it may reveal which principals exist.
        """
        try:
            return self._evaluate(token)
        except (ContextFailed, NoLocalName) as error:
            log.debug("a login by GSSAPI is refused: %a", str(error))
            raise AuthenticationFailed(_REFUSED) from error

    def _evaluate(self, token: bytes) -> Challenge | Done:
        context = self._context
        if self._has_offered:
            _check_choice(context.unwrap(token))
            return Done(Principal(self._names.local_name(context.peer)), b"")
        if not context.is_established:
            answer = context.step(token)
            if answer or not context.is_established:
                return Challenge(answer)
        elif token:
            raise ContextFailed("a token for an established context")
        self._has_offered = True
        return Challenge(context.wrap(_ONLY_NO_LAYER))


def _check_choice(message: bytes) -> None:
    """Checks the client's choice of a layer. Raises ContextFailed."""
    if len(message) < len(_ONLY_NO_LAYER) or message[0] != _NO_LAYER:
        raise ContextFailed("the client chooses a security layer that was not offered")


def client_tokens(context: SecurityContext, first: bytes) -> Tokens:
    """Yields the client's messages of one login; `first` is the first token of the context.

    Raises:
        AuthenticationRefused: the node does not prove its identity, or requires a security layer.
    """
    try:
        answer = yield first
        while not context.is_established:
            answer = yield context.step(answer)
        offer = context.unwrap(answer)
        if len(offer) != len(_ONLY_NO_LAYER) or not offer[0] & _NO_LAYER:
            raise AuthenticationRefused(f"the node requires a security layer of {MECHANISM}")
        yield context.wrap(_ONLY_NO_LAYER)
    except ContextFailed as error:
        raise AuthenticationRefused(f"the node does not prove its identity: {error}") from error
