"""Envelope (58): a broker forwards what a client asked of it (KIP-590).

The request inside is answered as if the client had asked here, in the version it used; its answer travels in
`response_data`. A node that is not the active controller says so at the top, so that the broker asks the next one. What
travels in it is trusted, so with an authorizer only who may CLUSTER_ACTION, a broker, may send one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.handlers.forwarded import FORWARDED_HANDLERS
from trimaran.quorum.serving.authorization import ACL_JUDGE
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import decode_request_header
from trimaran.wire.security.acls import Operation
from trimaran.wire.security.principal import Principal
from trimaran.wire.text.hosts import address_in
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import (
    Call,
    CloseConnection,
    ConnectionInfo,
    DeferredResponse,
)
from trimaran.wire.transport.requests.handles import handles

PRINCIPAL_VERSION = 0
ADDRESS_SIZES = (4, 16)

FORWARDED: Registry[ControllerContext] = Registry(FORWARDED_HANDLERS, judge=ACL_JUDGE)


@handles(EnvelopeRequest, versions="0", access=cluster(Operation.CLUSTER_ACTION))
def envelope(
    request: EnvelopeRequest, ctx: ControllerContext, call: Call
) -> EnvelopeResponse | DeferredResponse[EnvelopeResponse]:
    principal = _check(request)
    if not ctx.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    client = _client(request, principal, call.connection)
    forwarded = replace(ctx, forwarded=True)
    data = memoryview(request.request_data)
    if FORWARDED.is_heavy(data):
        return _apart(bytes(data), forwarded, client)
    with _blaming_the_sender():
        answer = FORWARDED.dispatch(data, forwarded, client)
    if answer is None or isinstance(answer, Outgoing):
        return _wrapped(answer)
    deferred = answer
    return DeferredResponse(lambda: _finished(deferred, ctx), ready=deferred.ready)


def _apart(
    data: bytes, ctx: ControllerContext, client: ConnectionInfo
) -> DeferredResponse[EnvelopeResponse]:
    """A large request is decoded in a thread; `data` is its own, as the receive buffer moves on meanwhile."""

    async def finish() -> EnvelopeResponse:
        with _blaming_the_sender():
            answer = await FORWARDED.dispatch_heavy(memoryview(data), ctx, client)
        return (
            await _finished(answer, ctx) if isinstance(answer, RunningRequest) else _wrapped(answer)
        )

    return DeferredResponse(finish)


async def _finished(deferred: RunningRequest, ctx: ControllerContext) -> EnvelopeResponse:
    outgoing = await deferred.finish()
    if not ctx.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return _wrapped(outgoing)


@contextmanager
def _blaming_the_sender() -> Iterator[None]:
    try:
        yield
    except (RemoteProtocolError, CloseConnection) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check(request: EnvelopeRequest) -> Principal:
    """The client's principal, unless something is wrong with the envelope, or with the kind or version of what is
    inside.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION, PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    if len(request.client_host_address) not in ADDRESS_SIZES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address has no size of one")
    principal = _principal(request.request_principal)
    try:
        header, _ = decode_request_header(request.request_data)
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    versions = FORWARDED.api_versions().get(header.api_key)
    if versions is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"api {header.api_key} is not forwarded")
    if header.api_version not in versions:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return principal


def _principal(data: bytes | None) -> Principal:
    try:
        if data is None or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
            raise RemoteProtocolError("no principal of a version known here")
        told = DefaultPrincipalData.decode(data[2:], PRINCIPAL_VERSION)
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return Principal(told.name, told.type, told.token_authenticated)


def _client(
    request: EnvelopeRequest, principal: Principal, broker: ConnectionInfo
) -> ConnectionInfo:
    """The client's connection as far as decisions look at it; it lives as long as the broker's."""
    address = str(address_in(str(ipaddress.ip_address(request.client_host_address))))
    turn = broker.turn.nested()
    return replace(broker, peer=Address(address, 0), principal=principal, turn=turn)


def _wrapped(answer: Outgoing | None) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=None if answer is None else bytes(answer))
