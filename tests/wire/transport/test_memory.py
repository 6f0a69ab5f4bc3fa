"""The memory of all connections is limited in bytes, and none of them waits forever (KIP-72)."""

import pytest
import trio

from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    ask_api_versions,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    request_frame,
    settled,
    sized,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from trimaran.wire.transport.memory import pools as memory
from trimaran.wire.transport.memory.pools import MemoryPool
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Wait

MIB = 1 << 20


async def test_frame_larger_than_pool_passes_alone():
    pool = MemoryPool(100)
    await pool.acquire(1000)
    assert pool.used == 1000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.acquire, 1)
        await settled()
        assert pool.waiting == 1
        pool.give_back(1000)
    assert pool.used == 1


async def test_smallest_waiter_is_served_first():
    pool, served = MemoryPool(100), []

    async def wait(size):
        await pool.acquire(size)
        served.append(size)

    pool.take(100)
    async with trio.open_nursery() as nursery:
        for size in (200, 300, 200, 100):
            nursery.start_soon(wait, size)
            await settled()
        for count, size in enumerate((100, 100, 200, 200)):
            pool.give_back(size)
            await settled()
            assert served == [100, 200, 200, 300][: count + 1]
    assert pool.used == 300


async def test_large_waiter_is_not_passed_forever(monkeypatch):
    monkeypatch.setattr(memory, "PASSED_MAX", 3)
    pool = MemoryPool(100)
    pool.take(100)
    async with trio.open_nursery() as nursery:
        for size in (500, *[100] * 5):
            nursery.start_soon(pool.acquire, size)
            await settled()
        for _ in range(3):
            pool.give_back(100)
            assert pool.used == 100
        pool.give_back(100)
        assert pool.used == 500
        pool.give_back(500)
        pool.give_back(100)


@pytest.mark.parametrize("granted", [False, True])
async def test_cancelled_waiter_holds_nothing(granted):
    pool = MemoryPool(100)
    pool.take(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.acquire, 60)
        await settled()
        nursery.cancel_scope.cancel()
        if granted:
            pool.give_back(100)
    assert (pool.used, pool.waiting) == (0 if granted else 100, 0)


def sync_frame(size, correlation_id=0):
    """Returns a request whose only assignment has `size` bytes."""
    one = SyncGroupRequestAssignment(member_id="m", assignment=bytes(size))
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[one])
    return request_frame(request, 5, correlation_id)


class Holding:
    """A handler that keeps requests until `go` is set."""

    def __init__(self):
        self.begun = 0
        self.go = trio.Event()

        @handles(SyncGroupRequest, versions="0-5", access=open_to_all("a test"))
        def sync_group(request, _context, _call):
            self.begun += 1

            async def finish():
                await self.go.wait()
                return SyncGroupResponse(assignment=request.assignments[0].assignment[:1])

            return (yield Wait(finish, ready=self.go.is_set))

        self.handler = sync_group


async def test_requests_of_connection_hold_bounded_memory():
    held = Holding()
    async with (
        open_server(held.handler, in_flight_bytes_max=100_000) as server,
        open_raw(server) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.send, b"".join(sync_frame(10_000, i) for i in range(50)))
        await settled()
        assert held.begun == 10
        held.go.set()
        for i in range(50):
            assert (await client.answer(14, 5))[0] == i


async def test_requests_of_all_connections_hold_bounded_memory(autojump_clock):
    held = Holding()
    async with (
        open_server(held.handler, request_bytes_max=200_000, stalled_seconds=60) as server,
        trio.open_nursery() as nursery,
    ):
        clients = [await nursery.start(connected, server) for _ in range(20)]
        for client in clients:
            await client.send(sync_frame(10_000))
        await settled()
        assert held.begun == 10
        # Small requests do not wait.
        assert (await ask_api_versions(await nursery.start(connected, server))).error_code == 0
        held.go.set()
        for client in clients:
            assert (await client.answer(14, 5)) is not None
        assert all(pool.used == 0 for pool in server.pools())
        nursery.cancel_scope.cancel()


async def connected(server, receive_buffer=None, *, task_status):
    async with open_raw(server, receive_buffer=receive_buffer) as client:
        task_status.started(client)
        await trio.sleep_forever()


def receive_buffers(server):
    return sum(len(connection.core.frames._buffer) for connection in server.connections.values())


async def test_arriving_frames_hold_bounded_memory(autojump_clock):
    """A connection that announces a large frame is not read further until there is memory for the whole frame."""
    async with (
        open_server(Holding().handler, request_bytes_max=4 * MIB, stalled_seconds=60) as server,
        trio.open_nursery() as nursery,
    ):
        for _ in range(20):
            client = await nursery.start(connected, server)
            nursery.start_soon(client.send, sync_frame(MIB)[: MIB // 2])
        await settled()
        assert receive_buffers(server) < 2 * MIB + 20 * 65536 + 20 * 4096
        frames, *_ = server.pools()
        assert frames.waiting == 18
        nursery.cancel_scope.cancel()
    assert (frames.used, frames.waiting) == (0, 0)


async def test_frame_above_budget_is_read_alone():
    held = Holding()
    held.go.set()
    async with open_server(held.handler, request_bytes_max=4096) as server:
        async with open_raw(server) as client:
            for i in range(3):
                await client.send(sync_frame(3 * MIB, i))
                assert (await client.answer(14, 5))[0] == i


async def test_buffers_of_quiet_connections_serve_waiting_ones():
    held = Holding()
    held.go.set()
    async with (
        open_server(held.handler, request_bytes_max=2 * MIB, stalled_seconds=600) as server,
        open_raw(server) as quiet,
        open_raw(server) as other,
    ):
        for client in (quiet, other, quiet, other):
            await client.send(sync_frame(MIB))
            assert await client.answer(14, 5) is not None


async def test_stalled_connection_is_closed_if_others_wait(autojump_clock):
    """A peer that announces a large frame and does not send it does not prevent others from sending theirs."""
    held = Holding()
    held.go.set()
    async with (
        open_server(held.handler, request_bytes_max=2 * MIB, stalled_seconds=1) as server,
        trio.open_nursery() as nursery,
    ):
        for _ in range(10):
            slow = await nursery.start(connected, server)
            await slow.send(sync_frame(4 * MIB)[:1000])
        await settled()
        async with open_raw(server) as client:
            await client.send(sync_frame(MIB))
            assert await client.answer(14, 5) is not None
        assert server.counters.stalled_closed >= 1
        assert trio.current_time() < 60
        nursery.cancel_scope.cancel()


def answering(size):
    """A handler whose responses have `size` bytes in memory."""

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def greedy(_request, _context, _call):
        return HeartbeatResponse()

    @handles(SyncGroupRequest, versions="0-5", access=open_to_all("a test"))
    def large(_request, _context, _call):
        return SyncGroupResponse(assignment=bytes(size))

    return greedy, large


async def test_untaken_answers_hold_bounded_memory(autojump_clock):
    small = sync_frame(1)
    async with (
        open_server(*answering(8 * MIB), responses_bytes_max=16 * MIB, stalled_seconds=5) as server,
        trio.open_nursery() as nursery,
    ):
        peers = [await nursery.start(connected, server, 4096) for _ in range(20)]
        for peer in peers:
            await peer.send(small)
        await settled()
        _, _, answers, *_ = server.pools()
        assert 16 * MIB <= answers.used <= 24 * MIB
        # Connections that read nothing are closed when others wait for their memory.
        async with open_raw(server) as client:
            assert (await ask_api_versions(client)).error_code == 0
        assert server.counters.stalled_closed >= 1
        assert trio.current_time() < 60
        nursery.cancel_scope.cancel()


async def test_responses_behind_deferred_one_are_counted():
    toy = Toy()
    event = toy.defer("slow")
    async with (
        open_server(heartbeat, context=toy, unsent_bytes_max=400) as server,
        open_raw(server) as client,
    ):
        await client.send(heartbeat_frame("slow", 1) + api_versions_frame(4, 2) * 50)
        await settled()
        assert server.counters.requests < 50
        event.set()
        assert (await client.heartbeat())[0] == 1
        for _ in range(50):
            assert (await client.answer(18, 4))[0] == 2


async def test_large_requests_are_decoded_in_order():
    held = Holding()
    held.go.set()
    many = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"x")] * 50_000,
    )
    frames = [
        sync_frame(1, 1),
        request_frame(many, 5, 2),
        api_versions_frame(4, 3),
        sized(b"\0\x12\0\4" + bytes(4) + b"\xff\xff" + b"\xff" * 70_000),
    ]
    async with open_server(held.handler) as server, open_raw(server) as client:
        await client.send(b"".join(frames))
        assert (await client.answer(14, 5))[0] == 1
        assert (await client.answer(14, 5))[0] == 2
        assert (await client.answer(18, 4))[0] == 3
        assert await client.is_closed()
        assert server.counters.bad_requests == 1


async def test_unstarted_frame_keeps_its_memory(autojump_clock):
    """Memory is reclaimed from quiet connections; a connection whose large request waits for its turn is not quiet."""
    toy = Toy()
    event = toy.defer("slow")
    held = Holding()
    held.go.set()
    async with (
        open_server(
            heartbeat, held.handler, context=toy, request_bytes_max=2 * MIB, stalled_seconds=600
        ) as server,
        open_raw(server) as client,
        trio.open_nursery() as nursery,
    ):
        await client.send(heartbeat_frame("slow", 1) + sync_frame(MIB, 2))
        await settled()
        frames, *_ = server.pools()
        assert frames.used > MIB
        for connection in server.connections.values():
            connection.core.shrink()
        assert frames.used > MIB
        event.set()
        assert (await client.heartbeat())[0] == 1
        assert (await client.answer(14, 5))[0] == 2
        nursery.cancel_scope.cancel()
