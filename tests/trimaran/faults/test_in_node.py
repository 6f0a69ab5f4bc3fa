"""Faults between the sockets and the connections of a server."""

import socket
from contextlib import asynccontextmanager

import pytest
import trio

from tests.wire.transport.support import (
    Toy,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    settled,
)
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.in_node import FaultyEndpoint, NodeFaults
from trimaran.faults.observations import FaultPeer
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint
from trimaran.wire.transport.server.interception import INTERCEPT

ERROR = {"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS"}


@pytest.fixture
def faults():
    return FaultSet()


@pytest.fixture
def toy():
    return Toy()


@asynccontextmanager
async def served(faults, toy, listener="PLAINTEXT"):
    """Serves heartbeats with these faults on the connections of a listener."""
    INTERCEPT.set(NodeFaults(faults, 1, frozenset({listener})).intercept)
    async with open_server(heartbeat, context=toy) as server:
        yield server


async def call(client, group="g", number=1):
    """Returns the error code of a heartbeat."""
    await client.send(heartbeat_frame(group, number))
    correlation_id, response = await client.heartbeat()
    assert correlation_id == number
    return response.error_code


async def held(faults, rule, count=1):
    """Waits until a rule holds this many frames."""
    assert await trio.to_thread.run_sync(
        faults.wait, rule.name, lambda: faults.holding(rule.name) >= count, 10
    )


async def test_rule_reaches_an_idle_connection(faults, toy):
    async with served(faults, toy) as server, open_raw(server) as client:
        assert await call(client) == 0
        rule = faults.add(**ERROR, times=1)
        assert [await call(client, number=n) for n in (2, 3)] == [27, 0]
        faults.remove(rule.name)
        assert await call(client, number=4) == 0
    assert faults.trace.count == 1
    assert len(toy.begun) == 3


async def test_other_listeners_have_no_faults(faults, toy):
    faults.add(**ERROR)
    async with served(faults, toy, "OTHER") as server, open_raw(server) as client:
        assert await call(client) == 0
    assert faults.trace.count == 0


async def test_requests_of_one_packet_are_answered_in_order(faults, toy):
    faults.add(**ERROR, group="b")
    async with served(faults, toy) as server, open_raw(server) as client:
        frames = [heartbeat_frame(group, n) for n, group in enumerate("abab")]
        await client.send(b"".join(frames)[:-3])
        await client.send(frames[-1][-3:])
        answers = [await client.heartbeat() for _ in range(4)]
    assert [(n, answer.error_code) for n, answer in answers] == [(0, 0), (1, 27), (2, 0), (3, 27)]


async def test_relay_starts_after_outstanding_responses(faults, autojump_clock):
    faults.add(**ERROR)
    answers = iter([True, True, False])
    server, client = socket.socketpair()
    async with trio.open_nursery() as nursery:
        endpoint = FaultyEndpoint(
            SocketEndpoint(server), faults, lambda: FaultPeer(0), lambda: next(answers), nursery
        )
        client.send(heartbeat_frame("g", 7))
        nursery.start_soon(endpoint.receive, FrameBuffer(1 << 20))
        await trio.lowlevel.wait_readable(client)
        assert client.recv(100)[4:8] == (7).to_bytes(4, "big")
        assert list(answers) == []
        nursery.cancel_scope.cancel()
    await endpoint.aclose()
    client.close()


@pytest.mark.parametrize(("moment", "unread"), [("before", 0), ("middle", 10), ("after", 0)])
async def test_connection_is_closed_at_its_moment(faults, toy, moment, unread):
    faults.add(api="Heartbeat", close=moment)
    async with served(faults, toy) as server, open_raw(server) as client:
        if moment == "after":
            assert await call(client) == 0
            assert await client.is_closed()
            return
        await client.send(heartbeat_frame("g"))
        data = bytearray()
        while more := await client.stream.receive_some():
            data += more
    assert len(data) == unread
    assert len(toy.begun) == (moment == "middle")


async def test_reset_is_seen_by_the_client(faults, toy):
    faults.add(api="Heartbeat", reset="before")
    async with served(faults, toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("g"))
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.receive_some()


async def test_held_request_continues_after_release(faults, toy):
    rule = faults.add(api="Heartbeat", group="a", hold="request")
    async with served(faults, toy) as server, open_raw(server) as client, open_raw(server) as other:
        await client.send(heartbeat_frame("a", 1))
        await held(faults, rule)
        assert await call(other, "b") == 0
        assert await trio.to_thread.run_sync(faults.release, rule.name) == 1
        assert (await client.heartbeat())[0] == 1
    assert toy.begun == ["b", "a"]


async def test_connection_with_held_response_can_end(faults, toy):
    rule = faults.add(api="Heartbeat", hold="response")
    async with served(faults, toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("a"))
            await held(faults, rule)
        await settled()
        assert faults.holding(rule.name) == 0
        assert server.connections == {}


async def test_throttled_response_takes_its_time(faults, toy):
    faults.add(api="Heartbeat", throttle=1000)
    async with served(faults, toy) as server, open_raw(server) as client:
        began = trio.current_time()
        assert await call(client) == 0
        assert trio.current_time() - began >= 0.9 * 14 / 1000 - 0.05


async def test_lost_response_leaves_the_connection_open(faults, toy):
    faults.add(api="Heartbeat", group="a", drop="response", times=1)
    async with served(faults, toy) as server, open_raw(server) as silent, open_raw(server) as other:
        await silent.send(heartbeat_frame("a") + heartbeat_frame("b"))
        await settled()
        assert toy.begun == ["a", "b"]
        assert await call(other, "a") == 0
        with trio.move_on_after(0) as waited:
            await silent.frame()
        assert waited.cancelled_caught


async def test_client_without_requests_left_is_answered(faults, toy):
    faults.add(api="Heartbeat", delay=0)
    async with served(faults, toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("a", 1) + heartbeat_frame("b", 2))
        await client.stream.send_eof()
        assert [(await client.heartbeat())[0] for _ in range(2)] == [1, 2]
        assert await client.is_closed()
