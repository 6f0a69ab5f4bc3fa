"""The contract of handlers that are generators: order, fairness, cancellation, errors, threads."""

import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import trio

from tests.broker.calls import carried_out, connection
from tests.wire.transport.support import open_raw, open_server, request_frame
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.header import RequestHeader, decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.transport.dispatch.dispatch import nested
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import (
    INLINE_COST_MAX,
    Blocking,
    Compute,
    Wait,
)
from trimaran.wire.transport.scheduling.loop_time import Unscheduled

OPEN = open_to_all("a test")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
LARGE, HUGE = 1 << 20, 64 << 20
REFUSAL = KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere")


def beat(handler, **options):
    """Declares a handler of heartbeats."""
    return handles(HeartbeatRequest, versions="0-4", access=OPEN, **options)(handler)


def dispatched(handler, turn_seconds=0.0):
    """Returns the registry's response to one heartbeat; with a slice of 0 seconds every boundary is a pause."""
    info = connection()
    info.turn = Unscheduled(turn_seconds)
    frame = memoryview(bytearray(encode_request(BEAT, 4, 7, "me")))
    return Registry((beat(handler),)).dispatch(frame, "context", info)


def decoded(outgoing):
    number, start = decode_response_header(bytes(outgoing), HeartbeatRequest.KEY, 4)
    assert number == 7
    return RESPONSES[HeartbeatRequest.KEY].decode(bytes(outgoing)[start:], 4)


def said(number):
    return HeartbeatResponse(throttle_time_ms=number)


def test_generator_without_a_pause_is_answered_at_once():
    def handler(request, ctx, call):
        yield None
        value = yield Compute(INLINE_COST_MAX, lambda: 5)
        return said(value)

    assert decoded(dispatched(handler, turn_seconds=60)).throttle_time_ms == 5


async def test_boundary_pauses_once_the_slice_is_over():
    def handler(request, ctx, call):
        yield None
        yield None
        return said(1)

    running = dispatched(handler)
    assert isinstance(running, RunningRequest)
    assert (running.blocks, running.ready(), running.is_known) == (True, False, False)
    await running.proceed()
    assert (running.blocks, running.is_known) == (False, True)
    assert decoded(running.response).throttle_time_ms == 1


@pytest.mark.parametrize(("more", "apart"), [(0, False), (1, True)])
async def test_compute_uses_a_thread_only_above_bound(more, apart):
    def handler(request, ctx, call):
        ran_in = yield Compute(INLINE_COST_MAX + more, threading.get_ident)
        return said(int(ran_in != threading.get_ident()))

    answer = dispatched(handler)
    assert isinstance(answer, RunningRequest) is apart
    outgoing = await answer.finish() if apart else answer
    assert decoded(outgoing).throttle_time_ms == int(apart)


@pytest.mark.parametrize(
    ("effect", "is_ready", "has_call", "expected"),
    [
        (Wait, False, True, (True, True)),
        (Wait, False, False, (False, True)),
        (Wait, True, True, (False, False)),
        (Blocking, False, True, (False, False)),
    ],
)
def test_only_an_unfinished_wait_calls_back(effect, is_ready, has_call, expected):
    asked = []

    def when_ready(call):
        asked.append(call)
        return SimpleNamespace(call=call) if has_call else None

    def handler(request, ctx, call):
        if effect is Blocking:
            yield Blocking(_value(3))
        yield Wait(_value(3), ready=lambda: is_ready, when_ready=when_ready)

    running = dispatched(handler)
    assert (running.calls_back(print), asked == [print]) == expected
    if expected[0]:
        assert running.calls_back(print), "it is not registered twice"
        assert asked == [print]


async def test_wait_admits_next_request_and_blocking_does_not():
    def handler(request, ctx, call):
        first = yield Blocking(partial(trio.sleep, 0))
        second = yield Wait(_value(3), ready=lambda: True)
        return said(second + int(first is not None))

    running = dispatched(handler)
    assert (running.blocks, running.ready()) == (True, False)
    held = running.held
    await running.proceed()
    assert (running.blocks, running.ready(), running.is_known) == (False, True, False)
    assert running.held == held > 0
    await running.proceed()
    assert decoded(running.response).throttle_time_ms == 3


def _value(value):
    async def wait():
        await trio.lowlevel.checkpoint()
        return value

    return wait


async def test_request_that_is_not_held_counts_for_nothing():
    def handler(request, ctx, call):
        del request
        yield Wait(_value(1), holds_request=False)
        return said(1)

    running = dispatched(handler)
    assert running.held == 0
    await running.finish()


def failing_call():
    raise REFUSAL


async def failing_wait():
    await trio.lowlevel.checkpoint()
    raise REFUSAL


FAILING = [
    Compute(0, failing_call),
    Compute(INLINE_COST_MAX + 1, failing_call),
    Blocking(failing_wait),
    Wait(failing_wait),
]


@pytest.mark.parametrize("effect", FAILING, ids=["inline", "thread", "blocking", "wait"])
async def test_error_of_effect_is_raised_at_its_yield(effect):
    def handler(request, ctx, call):
        try:
            yield effect
        except KafkaError as error:
            return said(error.code)
        return said(0)

    answer = dispatched(handler)
    outgoing = await answer.finish() if isinstance(answer, RunningRequest) else answer
    assert decoded(outgoing).throttle_time_ms == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("effect", FAILING, ids=["inline", "thread", "blocking", "wait"])
@pytest.mark.parametrize("own", [False, True])
async def test_error_that_leaves_the_handler_is_answered(effect, own):
    def handler(request, ctx, call):
        yield effect

    def on_error(request, code, message):
        assert (request.group_id, message) == ("g", "elsewhere")
        return HeartbeatResponse(error_code=code, throttle_time_ms=9)

    info = connection()
    frame = memoryview(bytearray(encode_request(BEAT, 4, 7, "me")))
    declared = beat(handler, on_error=on_error if own else None)
    answer = Registry((declared,)).dispatch(frame, None, info)
    outgoing = await answer.finish() if isinstance(answer, RunningRequest) else answer
    response = decoded(outgoing)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert response.throttle_time_ms == (9 if own else 0)


@pytest.mark.parametrize("pauses", [False, True])
async def test_handler_that_closes_the_connection_is_obeyed(pauses):
    def handler(request, ctx, call):
        yield Wait(_value(1)) if pauses else None
        raise CloseConnection("enough")

    with pytest.raises(CloseConnection, match="enough"):
        await dispatched(handler, turn_seconds=60).finish()


async def test_invalid_bytes_after_wait_spare_the_peer():
    def handler(request, ctx, call):
        yield Wait(_value(1))
        raise RemoteProtocolError("of another node")

    answer = await dispatched(handler).finish()
    assert decoded(answer).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    "effect",
    [None, Wait(trio.sleep_forever), Blocking(trio.sleep_forever)],
    ids=["boundary", "wait", "blocking"],
)
async def test_closing_runs_the_finally_blocks(effect):
    ended = []

    def handler(request, ctx, call):
        try:
            yield effect
        finally:
            ended.append(1)

    running = dispatched(handler)
    with trio.move_on_after(0) if effect is not None else trio.CancelScope():
        if effect is not None:
            await running.proceed()
    running.close()
    running.close()
    assert (ended, running.blocks) == ([1], False)


async def test_error_in_finally_block_is_contained():
    def handler(request, ctx, call):
        try:
            yield None
        finally:
            raise ValueError("ours")

    running = dispatched(handler)
    running.close()
    assert not running.is_known


@pytest.fixture
def groups():
    return [ListedGroup(group_id="g" * 200, protocol_type="") for _ in range(1000)]


async def test_growing_response_pauses_and_gives_back_its_memory(groups):
    """Above 1 MiB it takes a slot of the large responses and one of the largest."""
    info = connection()
    info.turn = Unscheduled(60)
    memory, seen = info.memory, set()

    @handles(ListGroupsRequest, versions="0-5", access=OPEN)
    def handler(request, ctx, call):
        room = call.room()
        room.expect(10)
        yield None
        found = []
        for _ in range(10):
            found += yield from room.encoding(groups)
            seen.add((memory.large.used, memory.responses.used))
        return ListGroupsResponse(groups=EncodedArray(found))

    frame = memoryview(bytearray(encode_request(ListGroupsRequest(), 5, 7, "me")))
    running = Registry((handler,)).dispatch(frame, None, info)
    outgoing = await running.finish()
    assert len(outgoing) > 2_000_000
    assert seen == {(LARGE, 0), (LARGE, HUGE)}
    assert (memory.large.used, memory.responses.used) == (0, 0)


async def test_requests_of_a_connection_take_effect_in_order():
    """The first request pauses at items, the second at an effect that it needs, and the third only waits."""
    began, go = [], trio.Event()

    def handler(request, ctx, call):
        name = request.group_id
        began.append(f"{name} begins")
        if name == "items":
            for _ in range(3):
                yield None
                time.sleep(0.002)  # longer than any slice
        elif name == "needs":
            yield Blocking(go.wait)
        else:
            yield Wait(go.wait)
        began.append(f"{name} ends")
        return said(len(began))

    def asked(name, number):
        return request_frame(BEAT.replace(group_id=name), 4, number)

    names = ["items", "needs", "waits", "last"]
    async with open_server(beat(handler)) as server, open_raw(server) as client:
        await client.send(b"".join(map(asked, names, range(4))))
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert began == ["items begins", "items ends", "needs begins"]
        go.set()
        answers = [await client.heartbeat() for _ in names]
    assert [number for number, _ in answers] == [0, 1, 2, 3]
    assert began[3:6] == ["needs ends", "waits begins", "last begins"]


async def test_closed_connection_ends_its_handlers():
    ended = trio.Event()

    def handler(request, ctx, call):
        try:
            yield Wait(trio.sleep_forever)
        finally:
            ended.set()

    async with open_server(beat(handler)) as server:
        async with open_raw(server) as client:
            await client.send(request_frame(BEAT, 4))
            await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.move_on_after(5):
            await ended.wait()
        assert ended.is_set()


async def test_request_of_400000_items_delays_no_other():
    """No step of the loop takes 50 ms, and requests of another connection are answered meanwhile."""
    items, meanwhile, steps = 400_000, 0, []

    def handler(request, ctx, call):
        if request.group_id != "many":
            return said(1)
        return _many(items)

    def _many(count):
        found = 0
        for _ in range(count):
            found += 1
            yield None
        return said(found)

    async def measure():
        while True:
            before = time.perf_counter()
            await trio.lowlevel.checkpoint()
            steps.append(time.perf_counter() - before)

    async with (
        open_server(beat(handler)) as server,
        open_raw(server) as large,
        open_raw(server) as small,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(measure)
        await large.send(request_frame(BEAT.replace(group_id="many"), 4, 1))
        done = trio.Event()

        async def receive():
            assert (await large.heartbeat())[1].throttle_time_ms == items
            done.set()

        nursery.start_soon(receive)
        while not done.is_set():
            await small.send(request_frame(BEAT, 4, 2))
            await small.heartbeat()
            meanwhile += 1
        nursery.cancel_scope.cancel()
    assert meanwhile > 50
    assert sorted(steps)[-3] < 0.05, "twice the machine may have been busy"


# --- nested requests


def nested_steps(handler, version=4, cut=0, context_of=None, **options):
    """Runs the handler of a heartbeat inside of another one, and its call."""
    frame = bytes(encode_request(BEAT, version, 7, "me"))
    outer = Call(RequestHeader(HeartbeatRequest.KEY, 4, 1, "outer"), connection())
    view = memoryview(frame[: len(frame) - cut])
    declared = beat(handler, **options)
    registry = Registry((declared,), context_of={declared: context_of})
    return registry.nested(view, "context", connection(), outer), outer


async def test_nested_effects_are_those_of_outer_handler():
    event = trio.Event()
    event.set()

    def handler(_request, _context, _call):
        yield None
        yield Wait(event.wait)
        return said(5)

    effects = []
    steps, _ = nested_steps(handler)
    found = await carried_out(steps, effects)
    assert decoded(found).throttle_time_ms == 5
    assert [type(effect) for effect in effects] == [Compute, type(None), Wait, Compute]


async def test_nested_handler_gets_its_part_of_context():
    given = []

    def handler(_, context, call):
        given.append(context)
        return said(1)

    steps, _ = nested_steps(handler, context_of=str.upper)
    await carried_out(steps, [])
    assert given == ["CONTEXT"]


async def test_nested_error_is_answered_in_its_response():
    def handler(_request, _context, _call):
        yield None
        raise REFUSAL

    steps, _ = nested_steps(handler)
    assert decoded(await carried_out(steps, [])).error_code == REFUSAL.code


async def test_malformed_nested_request_is_raised():
    steps, _ = nested_steps(lambda *_: said(1), cut=3)
    with pytest.raises(RemoteProtocolError):
        await carried_out(steps, [])


async def test_nested_response_is_counted_for_outer_call():
    def handler(_request, _context, call):
        call.room().take(1000)
        return said(1)

    steps, outer = nested_steps(handler)
    await carried_out(steps, [])
    assert outer.room().size == 1000


async def test_nested_request_is_handled_without_repetitions():
    seen = []

    def handler(request, _context, _call):
        seen.append(request.group_id)
        return said(1)

    steps, _ = nested_steps(handler, once=lambda request: request.replace(group_id="once"))
    await carried_out(steps, [])
    assert seen == ["once"]


@pytest.mark.parametrize("is_heavy", [False, True])
async def test_nested_request_is_as_heavy_as_named(is_heavy):
    seen = []

    def handler(_request, _context, call):
        seen.append(call.heavy)
        return said(1)

    outer = Call(RequestHeader(HeartbeatRequest.KEY, 4, 1, "outer"), connection())
    route = Registry((beat(handler),))._routes[HeartbeatRequest.KEY]
    view = memoryview(bytes(encode_request(BEAT, 4, 7, "me")))
    effects = []
    steps = nested(route, view, "context", connection(), outer, is_heavy=is_heavy)
    await carried_out(steps, effects)
    assert seen == [is_heavy]
    assert effects[0].cost_bytes == (INLINE_COST_MAX + 1 if is_heavy else 0)
