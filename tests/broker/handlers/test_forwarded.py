"""Requests that a broker forwards: bytes pass unchanged in both directions; failures are returned in the format of each
API.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.calls import connection
from tests.examples import examples
from tests.wire.strategies import messages
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.handlers.forwarded import OF_TOKENS
from trimaran.broker.handlers.registry import PASSED_ON, broker_registry
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import encode_request, encode_response
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.requests.error_responses import general_error
from trimaran.wire.transport.requests.handles import Handled, declaration_of

REGISTRY = broker_registry()


def each_of(handlers):
    declared = [declaration_of(handler) for handler in handlers]
    return pytest.mark.parametrize("row", declared, ids=lambda row: row.request.__name__)


REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
# Bytes that librdkafka appends to a request.
BEHIND = b"\0\0\0"


class Controller:
    """A controller that answers every envelope with `data`, or with an error."""

    def __init__(self, data: bytes | None, code: int = 0) -> None:
        self.data = data
        self.code = code
        self.got: list[EnvelopeRequest] = []

    async def call(
        self,
        request: EnvelopeRequest,
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> EnvelopeResponse:
        del timeout
        await trio.lowlevel.checkpoint()
        self.got.append(request)
        return EnvelopeResponse(response_data=self.data, error_code=self.code)


def answered(frame: bytes, controller: Any, protocol: str = "SASL_PLAINTEXT") -> bytes:
    administration = SimpleNamespace(
        forwarder=Forwarder(controller, 30.0),
        config=SimpleNamespace(protocol_of=lambda _listener: protocol),
    )
    contexts: Any = SimpleNamespace(administration=administration)
    answer = REGISTRY.dispatch(memoryview(bytearray(frame)), contexts, connection())
    if isinstance(answer, RunningRequest):
        answer = trio.run(answer.finish)
    assert answer is not None
    return bytes(answer)


def versions(row: Handled) -> st.SearchStrategy[int]:
    return st.integers(row.versions.low, row.versions.high)


@each_of(PASSED_ON)
@examples(0.4)
@given(data=st.data())
def test_bytes_pass_unchanged_both_ways(row: Handled, data: st.DataObject) -> None:
    version = data.draw(versions(row))
    request = data.draw(messages(row.request, version))
    response = data.draw(messages(RESPONSES[row.request.KEY], version))
    frame = bytes(encode_request(request, version, 7, data.draw(st.none() | st.text()))) + BEHIND
    controller = Controller(bytes(encode_response(response, version, 7)))
    assert answered(frame, controller) == controller.data
    assert [envelope.request_data for envelope in controller.got] == [frame]


def absent(message: Any, version: int) -> set[str]:
    """Returns the fields that the version lacks; elements of the response have their information instead."""
    return {
        field.name
        for field in message.__fields__
        if version not in field.versions and not field.ignorable
    }


@each_of(PASSED_ON)
@examples(0.4)
@given(data=st.data())
def test_refusal_is_returned(row: Handled, data: st.DataObject) -> None:
    version = data.draw(versions(row))
    request = data.draw(messages(row.request, version, tame=True))
    frame = bytes(encode_request(request, version, 7, "test")) + BEHIND
    error = KafkaError(REFUSED)
    if row.on_error is not None:
        said = row.on_error(request, error.code, error.message)
        said = said.replace(**dict.fromkeys(absent(said, version) & {"error_code"}, 0))
    else:
        general = general_error(row.request)
        assert general is not None
        said = general.build(error.code, error.message)
    assert answered(frame, Controller(None, REFUSED)) == encode_response(said, version, 7)


@each_of(PASSED_ON)
def test_malformed_forwarded_request_ends_the_connection(row: Handled) -> None:
    """The controller detects it; the connection is closed, as for every malformed request."""
    version = row.versions.high
    flexible = version in row.request.FLEXIBLE
    header = struct.pack(">hhih4s", row.request.KEY, version, 7, 4, b"test") + bytes(flexible)
    with pytest.raises(CloseConnection, match="malformed"):
        answered(header, Controller(None, ErrorCode.INVALID_REQUEST))


@each_of(OF_TOKENS)
@examples(0.2)
@given(data=st.data())
def test_plaintext_client_gets_no_token(row: Handled, data: st.DataObject) -> None:
    version = data.draw(versions(row))
    request = data.draw(messages(row.request, version, tame=True))
    controller = Controller(None)
    frame = bytes(encode_request(request, version, 7, "test"))
    assert row.on_error is not None
    said = row.on_error(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "")
    assert answered(frame, controller, "PLAINTEXT") == encode_response(said, version, 7)
    assert controller.got == []


@each_of(PASSED_ON)
def test_large_request_is_not_decoded(row: Handled) -> None:
    frame = bytearray(row.request.KEY.to_bytes(2, "big") + bytes(HEAVY_BYTES))
    assert not REGISTRY.is_heavy(memoryview(frame))
