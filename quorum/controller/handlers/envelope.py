"""Envelope (58): handles a client's request that a broker forwards (KIP-590).

The inner request is handled as if the client had sent it here, in the version that the client used; its response is
returned in `response_data`. A node that is not the active controller returns the error at the top level, so that the
broker tries the next controller. The content is trusted: with an authorizer, only a principal with CLUSTER_ACTION, a
broker, may send an Envelope.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from functools import lru_cache

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.handlers.forwarded import FORWARDED_HANDLERS
from trimaran.quorum.serving.authorization import ACL_JUDGE
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import decode_request_header
from trimaran.wire.security.acls import Operation
from trimaran.wire.security.principal import Principal
from trimaran.wire.text.hosts import address_in
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

PRINCIPAL_VERSION = 0
ADDRESS_SIZES = (4, 16)
# The number of decoded principals and addresses of clients that are cached: about 100 bytes each, at most 64 KiB.
CLIENTS_REMEMBERED = 128

FORWARDED: Registry[ControllerContext] = Registry(FORWARDED_HANDLERS, judge=ACL_JUDGE)
VERSIONS = FORWARDED.api_versions()


@handles(EnvelopeRequest, versions="0", access=cluster(Operation.CLUSTER_ACTION))
def envelope(
    request: EnvelopeRequest, ctx: ControllerContext, call: Call
) -> Handling[EnvelopeResponse]:
    principal = _check(request)
    _check_active(ctx)
    client = _client(request, principal, call.connection)
    frame = memoryview(request.request_data)
    try:
        response = yield from FORWARDED.nested(frame, replace(ctx, forwarded=True), client, call)
    except (RemoteProtocolError, CloseConnection) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    _check_active(ctx)
    return EnvelopeResponse(response_data=None if response is None else bytes(response))


def _check_active(ctx: ControllerContext) -> None:
    """Raises KafkaError NOT_CONTROLLER on a standby controller, so that the broker tries the next one."""
    if not ctx.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


def _check(request: EnvelopeRequest) -> Principal:
    """Returns the client's principal.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION, PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    if len(request.client_host_address) not in ADDRESS_SIZES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address has no valid size")
    principal = _principal(request.request_principal)
    try:
        header, _ = decode_request_header(request.request_data)
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    versions = VERSIONS.get(header.api_key)
    if versions is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"api {header.api_key} is not forwarded")
    if header.api_version not in versions:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return principal


@lru_cache(CLIENTS_REMEMBERED)
def _principal(data: bytes | None) -> Principal:
    try:
        if data is None or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
            raise RemoteProtocolError("no principal of a version known here")
        decoded = DefaultPrincipalData.decode(data[2:], PRINCIPAL_VERSION)
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return Principal(decoded.name, decoded.type, decoded.token_authenticated)


def _client(
    request: EnvelopeRequest, principal: Principal, broker: ConnectionInfo
) -> ConnectionInfo:
    """Returns a connection with the client's identity, for decisions to read; it lives as long as the connection of the
    broker.
    """
    host = _host(request.client_host_address)
    return broker.forwarding_for(Address(host, 0), principal)


@lru_cache(CLIENTS_REMEMBERED)
def _host(address: bytes) -> str:
    return str(address_in(str(ipaddress.ip_address(address))))
