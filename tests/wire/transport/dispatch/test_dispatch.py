"""From the bytes of a request to those of its response: which object holds the bytes, and errors as responses."""

import gc

import pytest
import trio

from tests.broker.calls import connection
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import DECODE_BUDGET, DECODE_BUDGET_BEFORE_AUTHENTICATION
from trimaran.wire.transport.dispatch.dispatch import decode
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking

HEAVY = 16 << 10
OF_ELEMENT = 384

OPEN = open_to_all("a test")
BEAT = HeartbeatRequest(group_id="group", generation_id=1, member_id="m")


def frame_of(request, version):
    return memoryview(bytearray(encode_request(request, version, 7, "test")))


def route_of(handler, request):
    return next(route for route in Registry((handler,)).routes() if route.request is request)


def handler_of(request, versions, **options):
    def handler(request, context, call):
        raise AssertionError

    return handles(request, versions=versions, access=OPEN, **options)(handler)


def records_of(request):
    return request.topic_data[0].partition_data[0].records


def producing():
    partition = PartitionProduceData(index=0, records=b"records")
    topics = [TopicProduceData(name="t", partition_data=[partition])]
    return ProduceRequest(acks=1, timeout_ms=5, topic_data=topics)


def test_records_are_a_view_of_the_frame():
    route = route_of(handler_of(ProduceRequest, "3-12"), ProduceRequest)
    frame = frame_of(producing(), 9)
    _, request = decode(route, frame, DECODE_BUDGET, connection())
    assert bytes(records_of(request)) == b"records"
    frame[:] = bytes(len(frame))
    assert bytes(records_of(request)) == bytes(7)


def test_call_knows_its_arrived_and_held_bytes():
    handler = handler_of(OffsetDeleteRequest, "0")
    topics = [OffsetDeleteRequestTopic(name="t", partitions=[]) for _ in range(5)]
    frame = frame_of(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    call, _ = decode(route_of(handler, OffsetDeleteRequest), frame, DECODE_BUDGET, connection())
    elements = (call.held - len(frame)) // OF_ELEMENT
    assert (call.frame_bytes, call.held) == (len(frame), len(frame) + elements * OF_ELEMENT)
    assert elements in range(5, 13)
    assert not call.heavy


@pytest.mark.parametrize(("size", "heavy"), [(HEAVY, False), (HEAVY + 1, True)])
def test_forwarded_frame_is_taken_unchanged(size, heavy):
    handler = handler_of(HeartbeatRequest, "0-4", takes_frame=True)
    whole = bytes(frame_of(BEAT, 4)).ljust(size, b"x")
    frame = memoryview(bytearray(whole))
    call, given = decode(route_of(handler, HeartbeatRequest), frame, DECODE_BUDGET, connection())
    frame[:] = bytes(size)
    assert given == whole
    assert (call.frame_bytes, call.held, call.heavy) == (size, size, heavy)


@pytest.mark.parametrize(
    ("elements_max", "budget", "topics", "is_taken"),
    [
        (8, DECODE_BUDGET, 3, True),
        (8, DECODE_BUDGET, 9, False),
        (8, DECODE_BUDGET_BEFORE_AUTHENTICATION, 9, False),
        (1000, DECODE_BUDGET, 100, True),
        (1000, DECODE_BUDGET_BEFORE_AUTHENTICATION, 100, False),
    ],
)
def test_elements_are_bounded_by_handler_and_connection(elements_max, budget, topics, is_taken):
    handler = handler_of(OffsetDeleteRequest, "0", elements_max=elements_max)
    names = [OffsetDeleteRequestTopic(name="t", partitions=[]) for _ in range(topics)]
    frame = frame_of(OffsetDeleteRequest(group_id="g", topics=names), 0)
    route = route_of(handler, OffsetDeleteRequest)
    if is_taken:
        assert len(decode(route, frame, budget, connection())[1].topics) == topics
    else:
        with pytest.raises(RemoteProtocolError):
            decode(route, frame, budget, connection())


@pytest.mark.parametrize(("elements", "freezes"), [(49_999, 0), (50_000, 1), (50_001, 1)])
def test_request_of_fifty_thousand_elements_escapes_collector(monkeypatch, elements, freezes):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    handler = handler_of(DeleteGroupsRequest, "0-1")
    frame = frame_of(DeleteGroupsRequest(groups_names=[""] * elements), 1)
    call, request = decode(
        route_of(handler, DeleteGroupsRequest), frame, DECODE_BUDGET, connection()
    )
    assert len(request.groups_names) == elements
    assert call.held == len(frame) + elements * OF_ELEMENT
    assert len(frozen) == freezes


def test_trailing_bytes_of_request_are_ignored():
    handler = handler_of(HeartbeatRequest, "0-4")
    frame = memoryview(bytearray(bytes(frame_of(BEAT, 4)) + b"xyz"))
    _, request = decode(route_of(handler, HeartbeatRequest), frame, DECODE_BUDGET, connection())
    assert request == BEAT


async def answered(handler, request, version, *, heavy=False):
    registry, frame = Registry((handler,)), frame_of(request, version)
    if heavy:
        said = await registry.dispatch_heavy(frame, None, connection())
    else:
        said = registry.dispatch(frame, None, connection())
    data = bytes(await said.finish() if hasattr(said, "finish") else said)
    number, body = decode_response_header(data, request.KEY, version)
    assert number == 7
    return RESPONSES[request.KEY].decode(data[body:], version)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("is_generator", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_COORDINATOR, "no"), ErrorCode.NOT_COORDINATOR),
        (ValueError("secret"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_exception_of_handler_becomes_the_response(error, code, is_generator, heavy):
    def at_once(request, context, call):
        raise error

    def later(request, context, call):
        yield Blocking(trio.lowlevel.checkpoint)
        raise error

    chosen = later if is_generator else at_once
    handler = handles(HeartbeatRequest, versions="0-4", access=OPEN)(chosen)
    assert (await answered(handler, BEAT, 4, heavy=heavy)).error_code == code


@pytest.mark.parametrize("is_generator", [False, True])
async def test_handler_that_closes_connection_is_no_error(is_generator):
    def at_once(request, context, call):
        raise CloseConnection("enough")

    def later(request, context, call):
        yield Blocking(trio.lowlevel.checkpoint)
        raise CloseConnection("enough")

    handler = handles(HeartbeatRequest, versions="0-4", access=OPEN)(
        later if is_generator else at_once
    )
    for heavy in (False, True):
        with pytest.raises(CloseConnection, match="enough"):
            await answered(handler, BEAT, 4, heavy=heavy)


async def test_handler_gets_request_without_repetitions():
    @handles(
        HeartbeatRequest,
        versions="0-4",
        access=OPEN,
        once=lambda request: request.replace(group_id="once"),
    )
    def beat(request, _context, _call):
        assert request.group_id == "once"
        return HeartbeatResponse(throttle_time_ms=3)

    for heavy in (False, True):
        assert (await answered(beat, BEAT, 4, heavy=heavy)).throttle_time_ms == 3
