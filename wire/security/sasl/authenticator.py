"""The SASL state of a connection before it is open for other requests, without sockets and time.

    hello      -> ApiVersions: answered; SaslHandshake v0: raw; v1: wrapped; anything else: refused
    wrapped    -> SaslAuthenticate: one round of the mechanism; anything else: ILLEGAL_SASL_STATE
    raw        -> the frame is a token, and so is the answer (before KIP-152 peers do not support SaslAuthenticate)
    done       -> the connection is open

A refusal also closes the connection. An open connection may authenticate again, as the same principal by the same
mechanism, if its session has a lifetime (KIP-368). GSSAPI tokens without a handshake are refused, as in Kafka 4.4.
Source: `SaslServerAuthenticator` of Kafka, KIP-43, KIP-152. For the end of a session, see
`trimaran.wire.transport.connection.session`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.header import decode_request_header, encode_response
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from trimaran.wire.schema import DECODE_BUDGET_BEFORE_AUTHENTICATION, Message
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done, Exchange

TOKEN_BYTES_MAX = 524_288  # `sasl.server.max.receive.size`, Kafka's default
FAILURE_DELAY_SECONDS = 0.1  # `connection.failed.authentication.delay.ms`
# The maximum number of rounds of one exchange; GSSAPI has three.
_ROUNDS_MAX = 8
_HEAD = struct.Struct(">hhi")  # api key, api version, correlation id
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The settings of one listener: mechanism name → factory of exchanges.

    `session_ms_max`: `connections.max.reauth.ms` by mechanism; without an entry a session lasts as long as its
    credential. `blocks`: an exchange may block, so it runs in a thread. `has_tickets`: a token may be as large as a
    Kerberos ticket.
    """

    mechanisms: Mapping[str, Callable[[], Exchange]]
    token_bytes_max: int = TOKEN_BYTES_MAX
    failure_delay_seconds: float = FAILURE_DELAY_SECONDS
    session_ms_max: Mapping[str, int] = field(default_factory=dict)
    blocks: bool = False
    has_tickets: bool = False

    def session_ms(self, mechanism: str, done: Done) -> int | None:
        """Returns the lifetime of a login; None if it is unlimited."""
        bounds = [self.session_ms_max.get(mechanism) or None, done.lifetime_ms]
        known = [bound for bound in bounds if bound is not None]
        return max(0, min(known)) if known else None


@dataclass(frozen=True, slots=True)
class Login:
    """An authenticated principal and its mechanism; `session_ms` is the lifetime of the login, None if unlimited."""

    principal: Principal
    mechanism: str
    session_ms: int | None


@dataclass(frozen=True, slots=True)
class LoginAction:
    """The action for a frame. If `response` is None, nothing is sent.

    Args:
        refused: the request is not handled; its response has this code, if it can carry one.
        passes: the request is ApiVersions; it is handled as on an open connection.
        login: the peer's identity from now on; the connection is open.
        closes: the reason to close the connection after the response.
        delayed: the response reports a failure and is sent late, which slows down guessing.
    """

    response: Outgoing | None = None
    refused: ErrorCode | None = None
    passes: bool = False
    login: Login | None = None
    closes: str | None = None
    delayed: bool = False


class Authenticator(Protocol):
    """The interface of an authenticator, which handles the frames of a connection until its peer is authenticated."""

    def receive(self, frame: memoryview) -> LoginAction:
        """Handles one frame of an unauthenticated peer.

        Raises:
            RemoteProtocolError: the frame is malformed; the connection closes.
        """


@dataclass(slots=True)
class SaslAuthenticator:
    """The state of one connection; call `receive` until a reply has a login.

    `before` is the login of an open connection: its principal and mechanism may not change.
    """

    settings: SaslSettings
    before: Login | None = None
    _exchange: Exchange | None = None
    _mechanism: str = ""
    _raw: bool = False
    _rounds: int = field(default=0)

    def receive(self, frame: memoryview) -> LoginAction:
        if self._exchange is not None and self._raw:
            return self._raw_token(self._exchange, bytes(frame))
        if len(frame) < _HEAD.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, _ = _HEAD.unpack_from(frame)
        if self._exchange is None:
            if key == ApiKey.API_VERSIONS:
                return LoginAction(passes=True)
            if key == ApiKey.SASL_HANDSHAKE:
                return self._handshake(frame, version)
        elif key == ApiKey.SASL_AUTHENTICATE:
            return self._wrapped_token(self._exchange, frame, version)
        why = f"api key {key} before authentication is complete"
        return LoginAction(refused=ErrorCode.ILLEGAL_SASL_STATE, closes=why)

    def _handshake(self, frame: memoryview, version: int) -> LoginAction:
        request, correlation_id = _decode(SaslHandshakeRequest, frame, version)
        offered = list(self.settings.mechanisms)
        begin = self.settings.mechanisms.get(request.mechanism)
        if begin is None:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            why = f"SASL mechanism {request.mechanism!a} is not offered here"
            return LoginAction(encode_response(response, version, correlation_id), closes=why)
        self._exchange, self._mechanism, self._raw = begin(), request.mechanism, version == 0
        response = SaslHandshakeResponse(mechanisms=offered)
        return LoginAction(encode_response(response, version, correlation_id))

    def _wrapped_token(self, exchange: Exchange, frame: memoryview, version: int) -> LoginAction:
        request, correlation_id = _decode(SaslAuthenticateRequest, frame, version)
        try:
            step = self._evaluate(exchange, bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            text = f"Authentication failed: {error}"
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
            )
            encoded = encode_response(response, version, correlation_id)
            return LoginAction(encoded, closes=text, delayed=True)
        login = self._login(step)
        response = SaslAuthenticateResponse(auth_bytes=step.token)
        if login is not None:
            response.session_lifetime_ms = login.session_ms or 0
        return LoginAction(encode_response(response, version, correlation_id), login=login)

    def _raw_token(self, exchange: Exchange, token: bytes) -> LoginAction:
        try:
            step = self._evaluate(exchange, token)
        except AuthenticationFailed as error:
            return LoginAction(closes=f"Authentication failed: {error}", delayed=True)
        response = Outgoing()
        response += step.token
        return LoginAction(response, login=self._login(step))

    def _login(self, step: Challenge | Done) -> Login | None:
        if isinstance(step, Challenge):
            return None
        session_ms = self.settings.session_ms(self._mechanism, step)
        return Login(step.principal, self._mechanism, session_ms)

    def _evaluate(self, exchange: Exchange, token: bytes) -> Challenge | Done:
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise AuthenticationFailed(f"{self._mechanism} does not end")
        before = self.before
        if before is not None and before.mechanism != self._mechanism:
            raise AuthenticationFailed(
                f"a client that has logged in by {before.mechanism} cannot continue by {self._mechanism}"
            )
        step = exchange.evaluate(token)
        changed = isinstance(step, Done) and (
            before is not None and step.principal[:2] != before.principal[:2]
        )
        if changed:
            raise AuthenticationFailed("another principal cannot take over a connection")
        return step


def _decode(kind: type[M], frame: memoryview, version: int) -> tuple[M, int]:
    if version not in kind.VERSIONS:
        raise RemoteProtocolError(f"{kind.__name__} v{version} is not served")
    budget = DECODE_BUDGET_BEFORE_AUTHENTICATION
    header, body = decode_request_header(frame, budget)
    return kind.decode_prefix(frame[body:], version, budget)[0], header.correlation_id
