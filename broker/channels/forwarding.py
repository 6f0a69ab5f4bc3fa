"""Takes a client's request to the active controller inside an Envelope, and the answer back (KIP-590).

The controller decides as if the client had asked it: principal and address of the client travel along. Source: `ForwardingManager` of Kafka.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from broker.channels.controller_channel import ControllerChannel
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from wire.messages.default_principal_data import DefaultPrincipalData
from wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from wire.messages.header import decode_response_header, encode_request
from wire.outgoing import Outgoing
from wire.schema import Message
from wire.security.principal import Principal
from wire.transport.calls import Call
from wire.transport.heavy import HEAVY_BYTES, run_apart

PRINCIPAL_VERSION = 0

M = TypeVar("M", bound=Message)


class Forwarder:
    """Handlers of what only the controller decides call `pass_on`, or `forward` if they look at the answer."""

    def __init__(self, controller: ControllerChannel, seconds_max: float) -> None:
        """`seconds_max`: Kafka's request.timeout.ms. Who asked has given up after this."""
        self._controller = controller
        self._seconds_max = seconds_max

    async def forward(self, request: Message, call: Call, answer_type: type[M]) -> M:
        """The controller's answer to `request`. Raises as `pass_on`."""
        passed_on = await self.pass_on(request, call)
        if len(passed_on) > HEAVY_BYTES:
            return await run_apart(answer_in, passed_on, call, answer_type)
        return answer_in(passed_on, call, answer_type)

    async def pass_on(self, request: Message, call: Call) -> Outgoing:
        """The controller's answer to `request` as the client is to have it: header and body, in the version in which it asked.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, what the controller said of the Envelope itself, or UNKNOWN_SERVER_ERROR if what it said makes no
                sense: that is not the client's fault, whose connection stays.
        """
        data = await run_apart(_encoded, request, call) if call.heavy else _encoded(request, call)
        envelope = EnvelopeRequest(
            request_data=data,
            request_principal=_principal(call.connection.principal),
            client_host_address=_address(call.connection.peer[0]),
        )
        answer = await self._controller.call(envelope, timeout=self._seconds_max)
        assert isinstance(answer, EnvelopeResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code))
        passed_on = Outgoing()
        passed_on += answer.response_data or b""
        with _blaming_the_controller():
            _body_of(passed_on, call)
        return passed_on


def answer_in(passed_on: Outgoing, call: Call, answer_type: type[M]) -> M:
    """What is passed on, decoded. Raises KafkaError UNKNOWN_SERVER_ERROR."""
    with _blaming_the_controller():
        return answer_type.decode(
            memoryview(passed_on)[_body_of(passed_on, call) :], call.header.api_version
        )


def _encoded(request: Message, call: Call) -> bytes:
    header = call.header
    return bytes(
        encode_request(request, header.api_version, header.correlation_id, header.client_id)
    )


@contextmanager
def _blaming_the_controller() -> Iterator[None]:
    try:
        yield
    except RemoteProtocolError as error:
        why = f"the controller's answer cannot be passed on: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from error


def _body_of(passed_on: Outgoing, call: Call) -> int:
    """Where the body of the answer begins."""
    header = call.header
    view = memoryview(passed_on)
    correlation_id, body = decode_response_header(view, header.api_key, header.api_version)
    if correlation_id != header.correlation_id:
        raise RemoteProtocolError("the controller answered another request")
    return body


def _principal(principal: Principal) -> bytes:
    data = DefaultPrincipalData(type=principal.type, name=principal.name, token_authenticated=False)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(PRINCIPAL_VERSION)


def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
