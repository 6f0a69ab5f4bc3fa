"""The response to each outcome of a handler, on the loop and in the thread, exactly."""

from __future__ import annotations

import logging

import pytest

from tests.broker.calls import call
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.header import encode_request, encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.transport.dispatch import responding
from trimaran.wire.transport.dispatch.responding import outcome, refusal, respond, respond_apart
from trimaran.wire.transport.dispatch.route import route_of
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.hooks import Hooks

VERSION = 4
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ERROR = KafkaError(ErrorCode.NOT_COORDINATOR, "why")
OWN = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR, throttle_time_ms=9)
GENERAL = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


def refuse(request, code, message):
    """Returns the handler's own error response."""
    assert (request, code, message) == (BEAT, ErrorCode.NOT_COORDINATOR, "why")
    return OWN


def route(hooks=None, **options):
    options.setdefault("on_error", refuse)

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"), **options)
    def handler(request, context, call):
        raise AssertionError

    return route_of(handler, LimitedLog(logging.getLogger("responding")), None, hooks)


@pytest.fixture
def ended():
    return []


@pytest.fixture
def hooks(ended):
    return Hooks(after=lambda _call, response: ended.append(response))


def encoded(response):
    return bytes(encode_response(response, VERSION, call(BEAT, VERSION).header.correlation_id))


async def both(on_loop, request, found):
    """Returns the frame that both ways of responding produce."""
    frames = [
        respond(on_loop, request, found, call(BEAT, VERSION)),
        await respond_apart(on_loop, request, found, call(BEAT, VERSION)),
    ]
    first, second = (None if frame is None else bytes(frame) for frame in frames)
    assert first == second
    return first


async def test_response_is_encoded_after_the_hooks(hooks, ended):
    found = HeartbeatResponse(error_code=ErrorCode.NONE, throttle_time_ms=3)
    assert await both(route(hooks), BEAT, found) == encoded(found)
    assert ended == [found, found]


async def test_error_is_answered_in_form_of_api(hooks, ended):
    assert await both(route(hooks), BEAT, ERROR) == encoded(OWN)
    assert await both(route(hooks, on_error=None), BEAT, ERROR) == encoded(GENERAL)
    assert ended == [OWN, OWN, GENERAL, GENERAL]


async def test_no_response_and_bytes_pass_unchanged(hooks, ended):
    frame = Outgoing()
    assert await both(route(hooks), BEAT, None) is None
    assert respond(route(hooks), BEAT, frame, call(BEAT, VERSION)) is frame
    assert ended == [None, None, frame]


def too_large(monkeypatch, *sizes):
    """Makes responses with these throttle times count as too large."""

    def encode(response, version, number):
        if response.throttle_time_ms in sizes:
            raise ResponseTooLarge
        return encode_response(response, version, number)

    monkeypatch.setattr(responding, "encode_response", encode)


async def test_too_large_response_becomes_an_error(monkeypatch):
    too_large(monkeypatch, 3)
    found = HeartbeatResponse(error_code=ErrorCode.NONE, throttle_time_ms=3)
    error = ResponseTooLarge()
    expected = HeartbeatResponse(error_code=error.code)
    assert await both(route(on_error=None), BEAT, found) == encoded(expected)


async def test_too_large_error_closes_the_connection(monkeypatch):
    too_large(monkeypatch, 0, 3)
    found = HeartbeatResponse(error_code=ErrorCode.NONE, throttle_time_ms=3)
    with pytest.raises(CloseConnection, match="HeartbeatRequest cannot be answered"):
        respond(route(on_error=None), BEAT, found, call(BEAT, VERSION))
    with pytest.raises(CloseConnection, match="HeartbeatRequest cannot be answered"):
        await respond_apart(route(on_error=None), BEAT, found, call(BEAT, VERSION))


def test_forwarded_request_is_decoded_for_its_error():
    frame = memoryview(bytes(encode_request(BEAT, VERSION, 7, "c")))
    assert refusal(route(takes_frame=True), frame, ERROR, 0) == OWN
    with pytest.raises(CloseConnection):
        refusal(route(takes_frame=True), frame[:-3], ERROR, VERSION)


async def test_unexpected_exception_becomes_an_error(caplog):
    def fail(error):
        raise error

    assert outcome(route(), (), len, "abc") == 3
    assert outcome(route(), (), fail, ERROR) is ERROR
    assert ERROR.__traceback__ is None
    with pytest.raises(CloseConnection):
        outcome(route(), (CloseConnection,), fail, CloseConnection())
    unexpected = ValueError("secret")
    found = outcome(route(), (CloseConnection,), fail, unexpected)
    assert (found.code, found.message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "unexpected error, see the log of the node",
    )
    assert unexpected.__traceback__ is None
    assert "secret" in caplog.text
