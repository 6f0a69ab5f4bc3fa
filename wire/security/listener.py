"""The security settings of a listener and of a client."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.schema import Message
from trimaran.wire.security.principal import AS_THEY_ARE, PrincipalMapping
from trimaran.wire.security.sasl.authenticator import SaslSettings
from trimaran.wire.security.sasl.exchange import ClientMechanism, Tokens


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of a listener; PLAINTEXT if both are None. `names` maps certificates to principals."""

    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None
    names: PrincipalMapping = AS_THEY_ARE


# Yields one request after another and receives the answer to each. Returns the lifetime of the login in milliseconds, 0
# if unlimited.
Login = Generator[Message, Any, int]


@dataclass(slots=True, eq=False)
class ClientSecurity:
    """The security of a client; PLAINTEXT if both are None. Each new connection reads it, so a certificate may be
    replaced while a node runs.
    """

    tls: ssl.SSLContext | None = None
    sasl: ClientMechanism | None = None

    def login(self, host: str) -> Login:
        """Returns the login with the credentials in `sasl`, which must not be None; it may wait, as `exchange` does."""
        assert self.sasl is not None, "this client has no credentials"
        return login(self.sasl.mechanism, self.sasl.exchange(host))


PLAINTEXT_LISTENER = ListenerSecurity()
PLAINTEXT = ClientSecurity()


def login(mechanism: str, tokens: Tokens) -> Login:
    """Yields the requests that authenticate a connection by an exchange of the mechanism, after ApiVersions and before
    any other request.

    Raises:
        AuthenticationRefused: the node refuses the login, or does not prove that it knows our password.
    """
    response = yield SaslHandshakeRequest(mechanism=mechanism)
    if response.error_code:
        offered = ", ".join(response.mechanisms) or "none"
        raise AuthenticationRefused(
            f"the node offers the SASL mechanisms {offered}, not {mechanism}"
            if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            else f"the node answers SaslHandshake with {ErrorCode.of(response.error_code).name}"
        )
    token = next(tokens)
    while True:
        response = yield SaslAuthenticateRequest(auth_bytes=token)
        if response.error_code:
            text = response.error_message or ErrorCode.of(response.error_code).name
            raise AuthenticationRefused(text)
        try:
            token = tokens.send(bytes(response.auth_bytes))
        except StopIteration:
            return int(response.session_lifetime_ms)
