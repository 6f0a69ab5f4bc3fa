"""Hooks observe every request and its response; a muted connection is answered, and not read until its mute ends."""

import socket

import pytest
import trio

from tests.broker.calls import call
from tests.wire.transport.support import (
    SETTLED_SECONDS,
    Toy,
    api_versions_frame,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
)
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.header import decode_response_header
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.update_metadata import UpdateMetadataResponse
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.hooks import Hooks
from trimaran.wire.transport.scheduling.effects import Blocking

HOUR = 3600.0

MUTED_SECONDS = 5.0


class Recorded:
    """Records the calls of the hooks; mutes for scripted seconds, by correlation id."""

    def __init__(self, **seconds):
        self.began = []
        self.ended = []
        self.seconds = seconds

    @property
    def hooks(self):
        return Hooks(before=self.before, after=self.after)

    def before(self, call):
        self.began.append(call.header.correlation_id)
        return self.seconds.get(f"r{call.header.correlation_id}", 0)

    def after(self, call, response):
        self.ended.append((call.header.correlation_id, type(response).__name__))


async def settle():
    await trio.testing.wait_all_tasks_blocked(SETTLED_SECONDS)


def read(frame):
    """Returns the correlation id and throttle time of a heartbeat's response."""
    number, body = decode_response_header(frame, HeartbeatRequest.KEY, 4)
    return number, HeartbeatResponse.decode(frame[body:], 4).throttle_time_ms


async def test_hooks_see_every_request_with_response():
    seen, toy = Recorded(), Toy()
    deferred = toy.defer("late")
    toy.failures["bad"] = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    registry = Registry((heartbeat,), hooks=seen.hooks)
    async with open_server(registry, context=toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("now", 1) + heartbeat_frame("late", 2))
        await client.send(heartbeat_frame("bad", 3) + api_versions_frame(4, 4))
        assert read(await client.frame())[0] == 1
        deferred.set()
        for _ in range(3):
            assert await client.frame()
    assert seen.began == [1, 2, 3, 4]
    heart = "HeartbeatResponse"
    assert sorted(seen.ended) == [(1, heart), (2, heart), (3, heart), (4, "ApiVersionsResponse")]


async def test_hooks_see_late_and_missing_responses():
    seen = Recorded()

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def handler(request, toy, call):
        yield Blocking(trio.lowlevel.checkpoint)
        return HeartbeatResponse() if request.group_id == "g" else None

    async with open_server(Registry((handler,), hooks=seen.hooks)) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("none", 1) + heartbeat_frame("g", 2))
            assert read(await client.frame()) == (2, 0)
    assert seen.ended == [(1, "NoneType"), (2, "HeartbeatResponse")]


async def test_muted_client_is_answered_now_and_read_later(mock_clock):
    seen, toy = Recorded(r1=MUTED_SECONDS), Toy()
    async with open_server(Registry((heartbeat,), hooks=seen.hooks), context=toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("a", 1) + heartbeat_frame("b", 2))
            assert read(await client.frame()) == (1, 5000)
            await settle()
            mock_clock.jump(MUTED_SECONDS - 0.1)
            await settle()
            assert toy.begun == ["a"]
            mock_clock.jump(0.2)
            assert read(await client.frame()) == (2, 2)
    assert toy.begun == ["a", "b"]


async def test_bytes_of_muted_connection_stay_in_kernel(mock_clock):
    seen, toy = Recorded(r1=MUTED_SECONDS), Toy()
    async with open_server(Registry((heartbeat,), hooks=seen.hooks), context=toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("a", 1))
            assert await client.frame()
            await client.send(heartbeat_frame("b", 2))
            await settle()
            (one,) = server.connections.values()
            waiting = one._endpoint._socket.recv(1000, socket.MSG_PEEK)
            assert waiting == heartbeat_frame("b", 2)
            mock_clock.jump(MUTED_SECONDS)
            assert read(await client.frame())[0] == 2


async def test_pending_responses_leave_while_muted(mock_clock):
    seen, toy = Recorded(r2=MUTED_SECONDS), Toy()
    deferred = toy.defer("late")
    async with open_server(Registry((heartbeat,), hooks=seen.hooks), context=toy) as server:
        async with open_raw(server) as client, open_raw(server) as other:
            await client.send(heartbeat_frame("late", 1) + heartbeat_frame("a", 2))
            await client.send(heartbeat_frame("b", 3))
            await settle()
            deferred.set()
            assert [read(await client.frame())[0] for _ in range(2)] == [1, 2]
            await settle()
            assert "b" not in toy.begun
            await other.send(heartbeat_frame("c", 4))  # no other response is waiting
            assert read(await other.frame())[0] == 4
            mock_clock.jump(MUTED_SECONDS)
            assert read(await client.frame())[0] == 3


@pytest.mark.parametrize("seconds", [3600.0, float("inf")])
async def test_no_connection_is_muted_forever(mock_clock, seconds):
    seen, toy = Recorded(r1=seconds), Toy()
    async with open_server(Registry((heartbeat,), hooks=seen.hooks), context=toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("a", 1) + heartbeat_frame("b", 2))
            assert read(await client.frame()) == (1, HOUR * 1000)
            mock_clock.jump(HOUR)
            assert read(await client.frame())[0] == 2


async def test_muted_connection_ends_only_with_its_server(mock_clock):
    seen, toy = Recorded(r1=MUTED_SECONDS), Toy()
    async with open_server(
        Registry((heartbeat,), hooks=seen.hooks), context=toy, idle_seconds=2.0
    ) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("a", 1))
            assert await client.frame()
            for _ in range(12):
                mock_clock.jump(0.26)
                await settle()
            assert not server.counters.idle_closed
            await server.drain(1.0)
            assert await client.is_closed()


async def test_muted_client_that_disconnects_is_swept(mock_clock):
    seen, toy = Recorded(r1=3600.0), Toy()
    async with open_server(
        Registry((heartbeat,), hooks=seen.hooks), context=toy, idle_seconds=8.0
    ) as server:
        async with open_raw(server) as stays:
            await stays.send(heartbeat_frame("b", 1))
            assert await stays.frame()
            async with open_raw(server) as leaves:
                await leaves.send(heartbeat_frame("a", 1) + heartbeat_frame("c", 2))
                assert await leaves.frame()
            await settle()
            assert len(server.connections) == 2
            mock_clock.jump(1.1)
            await settle()
            assert len(server.connections) == 1
    assert toy.begun == ["b", "a"]


BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.mark.parametrize(
    ("seconds", "muted_ms"), [(-1.0, None), (0.0, None), (0.25, 250), (1.0, 1000), (1.5, 1500)]
)
async def test_each_throttling_hook_mutes_the_connection(autojump_clock, seconds, muted_ms):
    for hooks in (Hooks(before=lambda _: seconds), Hooks(charge=lambda _, __: seconds)):
        asked, said = call(BEAT, 4), HeartbeatResponse(throttle_time_ms=5)
        hooks.begin(asked)
        hooks.end(asked, said)
        until = None if muted_ms is None else trio.current_time() + seconds
        assert asked.connection.muted_until == until
        assert (asked.throttle_ms, said.throttle_time_ms) == (muted_ms or 0, muted_ms or 5)


@pytest.mark.parametrize("told", [1499, 1500, 1501])
async def test_longest_throttle_time_is_returned(autojump_clock, told):
    hooks = Hooks(before=lambda _: 1.5, charge=lambda _, __: 1.25)
    asked, said = call(BEAT, 4), HeartbeatResponse(throttle_time_ms=told)
    hooks.begin(asked)
    hooks.end(asked, said)
    assert (asked.throttle_ms, said.throttle_time_ms) == (1500, max(told, 1500))


async def test_hooks_run_in_order_with_the_answer(autojump_clock):
    """The throttle time is not set in another node's response, in a missing one, or in one without such a field."""
    for said in (Outgoing(), None, UpdateMetadataResponse(), HeartbeatResponse()):
        seen = []

        def before(asked, seen=seen):
            seen.append(("before", asked))
            return 0.5

        def charge(asked, response, seen=seen):
            seen.append(("charge", asked, response, getattr(response, "throttle_time_ms", None)))
            return 0.75

        def after(asked, response, seen=seen):
            seen.append(("after", asked, response, getattr(response, "throttle_time_ms", None)))

        hooks, asked = Hooks(before, charge, after), call(BEAT, 4)
        hooks.begin(asked)
        hooks.end(asked, said)
        times = (0, 750) if isinstance(said, HeartbeatResponse) else (None, None)
        assert seen == [
            ("before", asked),
            ("charge", asked, said, times[0]),
            ("after", asked, said, times[1]),
        ]
        assert not hasattr(said, "throttle_time_ms") or said == HeartbeatResponse(
            throttle_time_ms=750
        )


async def test_answer_is_unchanged_without_hooks():
    asked, said = call(BEAT, 4), HeartbeatResponse(throttle_time_ms=3)
    Hooks().begin(asked)
    Hooks().end(asked, said)
    assert said == HeartbeatResponse(throttle_time_ms=3)
    assert asked.connection.muted_until is None
