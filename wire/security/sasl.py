"""What happens on a connection before it is open for other requests: SASL, without sockets and time.

    hello      -> ApiVersions: answered; SaslHandshake v0: raw; v1: wrapped; anything else: refused
    wrapped    -> SaslAuthenticate: one round of the mechanism; anything else: ILLEGAL_SASL_STATE
    raw        -> the frame is a token, and so is the answer (the peer knows no SaslAuthenticate, before KIP-152)
    done       -> the connection is open

Whatever is refused also closes the connection. Source: `SaslServerAuthenticator` of Kafka, KIP-43, KIP-152.
Left out: re-authentication (KIP-368), GSSAPI tokens without a handshake.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.header import decode_request_header, encode_response
from wire.messages.registry import ApiKey
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wire.outgoing import Outgoing
from wire.schema import DECODE_BUDGET_BEFORE_AUTHENTICATION, Message
from wire.security.principal import Principal

TOKEN_BYTES_MAX = 524_288  # `sasl.server.max.receive.size`, Kafka's default
FAILURE_DELAY_SECONDS = 0.1  # `connection.failed.authentication.delay.ms`
# Rounds of one exchange; SCRAM has two, OAUTHBEARER's failure two.
_ROUNDS_MAX = 8
_HEAD = struct.Struct(">hhi")  # api key, api version, correlation id
M = TypeVar("M", bound=Message)


class AuthenticationFailed(Exception):
    """The peer is not who it says; the text is told to it and holds nothing that it does not know."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The mechanism wants another token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The peer is `principal`; `token` is the last word of the mechanism."""

    principal: Principal
    token: bytes


class Exchange(Protocol):
    """One authentication by one mechanism."""

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Takes a token of the peer.

        Raises:
            AuthenticationFailed: the peer is refused.
        """


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Of one listener: mechanism name → what begins an exchange."""

    mechanisms: Mapping[str, Callable[[], Exchange]]
    token_bytes_max: int = TOKEN_BYTES_MAX
    failure_delay_seconds: float = FAILURE_DELAY_SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """What to do with a frame. `answer` None: nothing is sent.

    Args:
        refused: the request is not looked into; it is answered with this code, if its response can carry one.
        passes: the request is ApiVersions; it is answered as on an open connection.
        principal: who the peer is, from now on; the connection is open.
        closes: why the connection closes behind the answer.
        delayed: the answer tells of a failure, and leaves late, so that guessing is slow.
    """

    answer: Outgoing | None = None
    refused: ErrorCode | None = None
    passes: bool = False
    principal: Principal | None = None
    closes: str | None = None
    delayed: bool = False


class Authenticator(Protocol):
    """Holds a connection until its peer is known."""

    def receive(self, frame: memoryview) -> Reply:
        """Takes one frame of a peer that is not known yet.

        Raises:
            RemoteProtocolError: it makes no sense; the connection closes.
        """


@dataclass(slots=True)
class SaslAuthenticator:
    """One connection's state; `receive` until a reply has a principal."""

    settings: SaslSettings
    _exchange: Exchange | None = None
    _mechanism: str = ""
    _raw: bool = False
    _rounds: int = field(default=0)

    def receive(self, frame: memoryview) -> Reply:
        if self._exchange is not None and self._raw:
            return self._raw_token(self._exchange, bytes(frame))
        if len(frame) < _HEAD.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, _ = _HEAD.unpack_from(frame)
        if self._exchange is None:
            if key == ApiKey.API_VERSIONS:
                return Reply(passes=True)
            if key == ApiKey.SASL_HANDSHAKE:
                return self._handshake(frame, version)
        elif key == ApiKey.SASL_AUTHENTICATE:
            return self._wrapped_token(self._exchange, frame, version)
        why = f"api key {key} before authentication is complete"
        return Reply(refused=ErrorCode.ILLEGAL_SASL_STATE, closes=why)

    def _handshake(self, frame: memoryview, version: int) -> Reply:
        request, correlation_id = _decode(SaslHandshakeRequest, frame, version)
        offered = list(self.settings.mechanisms)
        begin = self.settings.mechanisms.get(request.mechanism)
        if begin is None:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered
            )
            why = f"SASL mechanism {request.mechanism!a} is not offered here"
            return Reply(encode_response(response, version, correlation_id), closes=why)
        self._exchange, self._mechanism, self._raw = begin(), request.mechanism, version == 0
        response = SaslHandshakeResponse(mechanisms=offered)
        return Reply(encode_response(response, version, correlation_id))

    def _wrapped_token(self, exchange: Exchange, frame: memoryview, version: int) -> Reply:
        request, correlation_id = _decode(SaslAuthenticateRequest, frame, version)
        try:
            step = self._evaluate(exchange, bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            text = f"Authentication failed: {error}"
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
            )
            answer = encode_response(response, version, correlation_id)
            return Reply(answer, closes=text, delayed=True)
        response = SaslAuthenticateResponse(auth_bytes=step.token)
        answer = encode_response(response, version, correlation_id)
        return Reply(answer, principal=step.principal if isinstance(step, Done) else None)

    def _raw_token(self, exchange: Exchange, token: bytes) -> Reply:
        try:
            step = self._evaluate(exchange, token)
        except AuthenticationFailed as error:
            return Reply(closes=f"Authentication failed: {error}", delayed=True)
        answer = Outgoing()
        answer += step.token
        return Reply(answer, principal=step.principal if isinstance(step, Done) else None)

    def _evaluate(self, exchange: Exchange, token: bytes) -> Challenge | Done:
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise AuthenticationFailed(f"{self._mechanism} does not end")
        return exchange.evaluate(token)


def _decode(kind: type[M], frame: memoryview, version: int) -> tuple[M, int]:
    if version not in kind.VERSIONS:
        raise RemoteProtocolError(f"{kind.__name__} v{version} is not served")
    budget = DECODE_BUDGET_BEFORE_AUTHENTICATION
    header, body = decode_request_header(frame, budget)
    return kind.decode_prefix(frame[body:], version, budget)[0], header.correlation_id
