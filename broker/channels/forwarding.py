"""Takes a client's request to the active controller inside an Envelope, and the answer back (KIP-590).

The controller decides as if the client had asked it: principal and address of the client travel along. Source:
`ForwardingManager` of Kafka.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from trimaran.broker.channels.controller_channel import ControllerChannel
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest
from trimaran.wire.messages.create_topics import CreateTopicsRequest
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.schema import Message
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.scheduling.compute_thread import run_apart

PRINCIPAL_VERSION = 0

# Answers that begin with a throttle time from that version on, and the controller may have put one there.
THROTTLED_SINCE = {
    CreateTopicsRequest.KEY: 2,
    DeleteTopicsRequest.KEY: 1,
    CreatePartitionsRequest.KEY: 0,
}

M = TypeVar("M", bound=Message)


class Forwarder:
    """For what only the controller decides.

    `forward_frame` where nobody looks inside, `forward_request` for a request that is at hand, `forward` for an answer
    that is looked at.
    """

    def __init__(self, controller: ControllerChannel, seconds_max: float) -> None:
        """`seconds_max`: Kafka's request.timeout.ms. Who asked has given up after this."""
        self._controller = controller
        self._seconds_max = seconds_max

    async def forward(self, request: Message, call: Call, answer_type: type[M]) -> M:
        """The controller's answer to `request`. Raises as `forward_request`."""
        forwarded = await self.forward_request(request, call)
        if len(forwarded) > HEAVY_BYTES:
            return await run_apart(decode_answer, forwarded, call, answer_type)
        return decode_answer(forwarded, call, answer_type)

    async def forward_request(self, request: Message, call: Call) -> Outgoing:
        """As `forward_frame`, for `request` in the version in which the client asked."""
        data = await run_apart(_encoded, request, call) if call.heavy else _encoded(request, call)
        return await self.forward_frame(data, call)

    async def forward_frame(self, frame: bytes, call: Call) -> Outgoing:
        """The controller's answer to the request in `frame` as the client is to have it: header and body.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, what the controller said of the Envelope itself, or UNKNOWN_SERVER_ERROR if
                what it said makes no
                sense: that is not the client's fault, whose connection stays.
        """
        forwarded = Outgoing()
        forwarded += await self._enveloped(frame, call)
        with _as_server_error():
            _throttle(forwarded, _body_of(forwarded, call), call)
        return forwarded

    async def ask_for(self, call: Call, request: Message, version: int, answer_type: type[M]) -> M:
        """The controller's answer to a request that the client of `call` did not send itself, and that is judged, and
        counts for quotas, as if it had. Raises as `forward_frame`.
        """
        header = call.header
        frame = encode_request(request, version, header.correlation_id, header.client_id)
        data = memoryview(await self._enveloped(bytes(frame), call))
        with _as_server_error():
            _, body = decode_response_header(data, request.KEY, version)
            return answer_type.decode(data[body:], version)

    async def _enveloped(self, frame: bytes, call: Call) -> bytes:
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=_principal(call.connection.principal),
            client_host_address=_address(call.connection.peer[0]),
        )
        answer = await self._controller.call(envelope, timeout=self._seconds_max)
        assert isinstance(answer, EnvelopeResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code))
        return answer.response_data or b""


def _throttle(forwarded: Outgoing, body: int, call: Call) -> None:
    """The controller does not see the client's connection: this broker mutes it for as long as its answer tells."""
    since = THROTTLED_SINCE.get(call.header.api_key)
    if since is not None and call.header.api_version >= since:
        told = memoryview(forwarded)[body : body + 4]
        call.throttle(int.from_bytes(told, "big", signed=True) / 1000)


def decode_answer(forwarded: Outgoing, call: Call, answer_type: type[M]) -> M:
    """What is passed on, decoded. Raises KafkaError UNKNOWN_SERVER_ERROR."""
    with _as_server_error():
        return answer_type.decode(
            memoryview(forwarded)[_body_of(forwarded, call) :], call.header.api_version
        )


def _encoded(request: Message, call: Call) -> bytes:
    header = call.header
    return bytes(
        encode_request(request, header.api_version, header.correlation_id, header.client_id)
    )


@contextmanager
def _as_server_error() -> Iterator[None]:
    try:
        yield
    except RemoteProtocolError as error:
        why = f"the controller's answer cannot be passed on: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from error


def _body_of(forwarded: Outgoing, call: Call) -> int:
    """Where the body of the answer begins."""
    header = call.header
    view = memoryview(forwarded)
    correlation_id, body = decode_response_header(view, header.api_key, header.api_version)
    if correlation_id != header.correlation_id:
        raise RemoteProtocolError("the controller answered another request")
    return body


def _principal(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.by_token
    )
    return PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(PRINCIPAL_VERSION)


def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
