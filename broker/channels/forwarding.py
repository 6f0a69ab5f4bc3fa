"""Forwards a client's request to the active controller in an Envelope, and returns the answer (KIP-590).

The controller decides as if the client had sent the request to it: the Envelope has the client's principal and address.
The answer to a change waits until this broker's metadata has it (`broker/metadata/read_index.py`).
Source: `ForwardingManager` of Kafka.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import TypeVar

from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest
from trimaran.wire.messages.create_topics import CreateTopicsRequest
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.describe_quorum import DescribeQuorumRequest
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from trimaran.wire.schema import Message
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.scheduling.effects import (
    INLINE_COST_MAX,
    Compute,
    Handling,
    Wait,
)

PRINCIPAL_VERSION = 0
# The number of cached encodings of clients' principals and addresses: about 100 bytes each, at most 64 KiB.
CLIENTS_REMEMBERED = 128

# The cost per byte of decoding or encoding, so that a message of `HEAVY_BYTES` just reaches `INLINE_COST_MAX`.
MESSAGE_COST = INLINE_COST_MAX // HEAVY_BYTES
# The first version whose response begins with a throttle time, for APIs whose quota the controller enforces.
THROTTLED_SINCE = {
    CreateTopicsRequest.KEY: 2,
    DeleteTopicsRequest.KEY: 1,
    CreatePartitionsRequest.KEY: 0,
}
# Forwarded requests that change nothing.
READS = frozenset({DescribeQuorumRequest.KEY, ListPartitionReassignmentsRequest.KEY})

M = TypeVar("M", bound=Message)


class Forwarder:
    """Forwards requests that only the controller may decide.

    `forward_frame` takes an undecoded request, `forward_request` a decoded one; `forward` also decodes the answer.
    """

    def __init__(
        self,
        controller: ControllerCalls,
        seconds_max: float,
        caught_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`seconds_max` is Kafka's request.timeout.ms, after which the client gives up. `caught_up` waits until this
        broker has a forwarded change; None does not wait. Requests of `ask_for` never wait.
        """
        self._controller = controller
        self._seconds_max = seconds_max
        self._caught_up = caught_up

    def forward(self, request: Message, call: Call, response_type: type[M]) -> Handling[M]:
        """Returns the controller's answer to `request`. Raises as `forward_request` does."""
        forwarded = yield from self.forward_request(request, call)
        response: M = yield Compute(
            len(forwarded) * MESSAGE_COST, partial(decode_response, forwarded, call, response_type)
        )
        return response

    def forward_request(self, request: Message, call: Call) -> Handling[Outgoing]:
        """Forwards `request` as `forward_frame` does, in the version of the client's request."""
        frame = yield Compute(call.frame_bytes * MESSAGE_COST, partial(_encoded, request, call))
        response: Outgoing = yield Wait(partial(self.forward_frame, frame, call))
        return response

    async def forward_frame(self, frame: bytes, call: Call) -> Outgoing:
        """Returns the controller's answer to the request in `frame`, in the form for the client: header and body.
        The image has the change then, unless this broker is late.

        Raises:
            KafkaError: REQUEST_TIMED_OUT; the error of the Envelope itself; UNKNOWN_SERVER_ERROR if the answer is
                invalid, which is not the client's fault: its connection remains open.
        """
        forwarded = Outgoing()
        forwarded += await self._enveloped(frame, call)
        _throttle(forwarded, _body_of(forwarded, call), call)
        if self._caught_up is not None and call.header.api_key not in READS:
            await self._caught_up()
        return forwarded

    async def ask_for(
        self, call: Call, request: Message, version: int, response_type: type[M]
    ) -> M:
        """Returns the controller's answer to a request that the broker sends on behalf of the client of `call`.
        Authorization and quotas apply as if the client had sent it. Raises as `forward_frame` does.
        """
        header = call.header
        frame = encode_request(request, version, header.correlation_id, header.client_id)
        data = memoryview(await self._enveloped(bytes(frame), call))
        try:
            _, body = decode_response_header(data, request.KEY, version)
            return response_type.decode(data[body:], version)
        except RemoteProtocolError as error:
            raise _server_error(error) from error

    async def _enveloped(self, frame: bytes, call: Call) -> bytes:
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=_principal(call.connection.principal),
            client_host_address=_address(call.connection.peer[0]),
        )
        response = await self._controller.call(envelope, timeout=self._seconds_max)
        assert isinstance(response, EnvelopeResponse)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        return response.response_data or b""


def _throttle(forwarded: Outgoing, body: int, call: Call) -> None:
    """Mutes the client's connection, which the controller cannot see, for the time in the controller's answer."""
    since = THROTTLED_SINCE.get(call.header.api_key)
    if since is not None and call.header.api_version >= since:
        told = memoryview(forwarded)[body : body + 4]
        call.throttle(int.from_bytes(told, "big", signed=True) / 1000)


def decode_response(forwarded: Outgoing, call: Call, response_type: type[M]) -> M:
    """Returns the decoded answer. Raises KafkaError UNKNOWN_SERVER_ERROR."""
    body = memoryview(forwarded)[_body_of(forwarded, call) :]
    try:
        return response_type.decode(body, call.header.api_version)
    except RemoteProtocolError as error:
        raise _server_error(error) from error


def _encoded(request: Message, call: Call) -> bytes:
    header = call.header
    return bytes(
        encode_request(request, header.api_version, header.correlation_id, header.client_id)
    )


def _server_error(error: RemoteProtocolError) -> KafkaError:
    why = f"the controller's answer cannot be passed on: {error}"
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why)


def _body_of(forwarded: Outgoing, call: Call) -> int:
    """Returns the position of the body in the answer. Raises KafkaError UNKNOWN_SERVER_ERROR."""
    header = call.header
    view = memoryview(forwarded)
    try:
        correlation_id, body = decode_response_header(view, header.api_key, header.api_version)
    except RemoteProtocolError as error:
        raise _server_error(error) from error
    if correlation_id != header.correlation_id:
        raise _server_error(RemoteProtocolError("the controller answered another request"))
    return body


@lru_cache(CLIENTS_REMEMBERED)
def _principal(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.by_token
    )
    return PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(PRINCIPAL_VERSION)


@lru_cache(CLIENTS_REMEMBERED)
def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
