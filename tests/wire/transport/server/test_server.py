import errno
import gc
import socket
import tracemalloc
from contextlib import AsyncExitStack
from functools import partial
from typing import ClassVar

import pytest
import trio

from tests.descriptors import by_itself, end_after_free, holes
from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    ask_api_versions,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    settled,
)
from trimaran.wire.security.listener import PLAINTEXT_LISTENER, ListenerSecurity
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server.connection_quotas import ConnectionBounds, ConnectionQuotas
from trimaran.wire.transport.server.server import Listener, serve_listener

# Including the client's side, which takes half a kilobyte to two kilobytes.
IDLE_BYTES_MAX = 13_000


def quotas(**bounds):
    return ConnectionQuotas(ConnectionBounds(**bounds))


async def test_connections_have_names_of_their_listeners():
    toy = Toy()
    listeners = [Listener.bind(name, "127.0.0.1", 0) for name in ("INSIDE", "OUTSIDE")]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_listener, listeners, Registry([heartbeat]), toy)
        for name, address in server.addresses.items():
            stream = await trio.open_tcp_stream(*address)
            await stream.send_all(heartbeat_frame(name))
            assert await stream.receive_some()
            info = toy.connections[name]
            assert info.listener == name
            assert info.local == address
            assert info.peer == stream.socket.getsockname()
            await stream.aclose()
        nursery.cancel_scope.cancel()


class NotingSocket(socket.socket):
    """Notes all created sockets, and the backlog of each."""

    made: ClassVar[list] = []
    backlog = None

    def __init__(self, *given):
        super().__init__(*given)
        self.made.append(self)

    def listen(self, backlog):
        self.backlog = backlog
        super().listen(backlog)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
@pytest.mark.parametrize(("options", "backlog"), [({}, 4096), ({"backlog": 7}, 7)])
def test_listening_socket_takes_both_families_and_used_port(monkeypatch, host, options, backlog):
    if host != "127.0.0.1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    monkeypatch.setattr(socket, "socket", NotingSocket)
    security = ListenerSecurity(None, None)
    listener = Listener.bind("L", host, 0, security=security, for_nodes=True, **options)
    with listener.socket as sock:
        family = socket.AF_INET if host == "127.0.0.1" else socket.AF_INET6
        assert (sock.family, sock.type, sock.backlog) == (family, socket.SOCK_STREAM, backlog)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 1
        if not host:
            assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0
        assert listener.address == (host or "::", sock.getsockname()[1])
    assert (listener.name, listener.security, listener.for_nodes) == ("L", security, True)


def test_taken_address_is_reported_and_socket_closed(monkeypatch):
    monkeypatch.setattr(socket, "socket", NotingSocket)
    listener = Listener.bind("A", "127.0.0.1", 0)
    assert (listener.security, listener.for_nodes) == (PLAINTEXT_LISTENER, False)
    host, port = listener.address
    with listener.socket, pytest.raises(OSError, match="in use") as failed:
        Listener.bind("B", host, port)
    assert (failed.value.errno, failed.value.filename) == (errno.EADDRINUSE, f"{host}:{port}")
    assert NotingSocket.made[-1] is not listener.socket
    assert NotingSocket.made[-1].fileno() == -1


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_no_host_means_all_interfaces_of_both_families(host):
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    toy, listener = Toy(), Listener.bind("A", "", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_listener, [listener], Registry([heartbeat]), toy)
        async with await trio.open_tcp_stream(host, listener.address[1]) as stream:
            await stream.send_all(heartbeat_frame("g"))
            assert await stream.receive_some()
        info = toy.connections["g"]
        assert (info.peer[0], info.local) == (host, (host, listener.address[1]))
        nursery.cancel_scope.cancel()


async def test_idle_connections_are_closed(autojump_clock):
    async with open_server(heartbeat, context=Toy(), idle_seconds=600) as server:
        async with open_raw(server) as client:
            began = trio.current_time()
            assert await client.frame() is None
            assert 600 <= trio.current_time() - began <= 600 * 1.25 + 1
        assert server.counters.idle_closed == 1


async def test_used_connection_is_not_idle(autojump_clock):
    async with (
        open_server(heartbeat, context=Toy(), idle_seconds=60) as server,
        open_raw(server) as client,
    ):
        for i in range(20):
            await client.send(heartbeat_frame("g", i))
            assert (await client.heartbeat())[0] == i
            await trio.sleep(55)


async def test_peer_awaiting_our_answer_is_not_idle(autojump_clock):
    toy = Toy()
    event = toy.defer("slow")
    async with (
        open_server(heartbeat, context=toy, idle_seconds=60) as server,
        open_raw(server) as client,
    ):
        await client.send(heartbeat_frame("slow", 1))
        await trio.sleep(3600)
        event.set()
        assert (await client.heartbeat())[0] == 1


async def send_for_ever(client, data, pause_seconds):
    while True:
        await client.send(data)
        await trio.sleep(pause_seconds)


async def read_to_the_end(client):
    assert await client.frame() is None
    raise trio.BrokenResourceError


@pytest.mark.parametrize("head", [b"", b"\0", b"\0\0\0\1", (50_000_000).to_bytes(4, "big")])
async def test_slowly_trickling_frame_counts_as_idle(autojump_clock, head):
    async with open_server(idle_seconds=60) as server, open_raw(server) as client:
        began = trio.current_time()
        await client.send(head)
        trickles = len(head) == 4 and head != b"\0\0\0\1"
        with pytest.raises(trio.BrokenResourceError):
            await (send_for_ever(client, b"x", 1) if trickles else read_to_the_end(client))
        assert trio.current_time() - began < 90


async def test_large_frame_on_slow_line_is_active(autojump_clock):
    async with (
        open_server(heartbeat, context=Toy(), idle_seconds=60) as server,
        open_raw(server) as client,
    ):
        await client.send((500_000).to_bytes(4, "big") + heartbeat_frame("g")[4:])
        for _ in range(10):
            await trio.sleep(40)
            await client.send(bytes(20_000))
        assert server.counters.idle_closed == 0


@pytest.mark.slow
async def test_peer_that_never_reads_is_idle(autojump_clock):
    async with (
        open_server(idle_seconds=60, unsent_bytes_max=1000) as server,
        open_raw(server, receive_buffer=4096) as client,
    ):
        with pytest.raises(trio.BrokenResourceError):
            await send_for_ever(client, api_versions_frame() * 1000, 0)
        assert server.counters.idle_closed == 1
        assert trio.current_time() < 100


@pytest.mark.slow
async def test_idle_connections_give_memory_back(autojump_clock):
    async with open_server(heartbeat, context=Toy(), idle_seconds=600) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("g") * 20_000)
            for _ in range(20_000):
                await client.heartbeat()
            (connection,) = server.connections.values()
            grown = len(connection.core.frames._buffer)
            await trio.sleep(200)
            assert len(connection.core.frames._buffer) <= min(grown, 65536)
            await client.send(heartbeat_frame("g", 3))
            assert (await client.heartbeat())[0] == 3


async def test_number_of_connections_is_limited(autojump_clock):
    async with open_server(heartbeat, context=Toy(), quotas=quotas(connections_max=2)) as server:
        async with open_raw(server) as first, open_raw(server) as second:
            await ask_api_versions(first)
            await ask_api_versions(second)
            async with open_raw(server) as third:
                await third.send(api_versions_frame(4, 3))
                await settled()
                assert server.counters.accepted == 2
                await first.stream.aclose()
                assert (await third.answer(18, 4))[0] == 3


async def test_number_of_connections_per_address_is_limited(caplog):
    async with open_server(heartbeat, context=Toy(), quotas=quotas(per_ip_max=2)) as server:
        async with open_raw(server) as first, open_raw(server) as second:
            await ask_api_versions(first)
            await ask_api_versions(second)
            for _ in range(5):
                async with open_raw(server) as more:
                    assert await more.is_closed()
        assert server.counters.refused == 5
        await settled()
        async with open_raw(server) as again:
            await ask_api_versions(again)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("between_others", [0, 14])
@by_itself
def test_last_descriptors_are_reserved_for_files(between_others):
    async def connect_until_refused(end):
        async with open_server(heartbeat, context=Toy(), descriptors_end=end) as server:
            async with AsyncExitStack() as stack:
                opened = []
                while not server.counters.refused:
                    opened.append(await stack.enter_async_context(open_raw(server)))
                    await settled()
                assert 4 <= len(opened) <= 10, "both ends are in this process"
                await ask_api_versions(opened[0])
            await settled()
            async with open_raw(server) as again:
                await ask_api_versions(again)

    with holes(between_others):
        trio.run(connect_until_refused, end_after_free(20))


async def test_single_addresses_may_have_other_shares():
    bounds = quotas(per_ip_max=0, per_ip={"127.0.0.1": 1})
    async with open_server(quotas=bounds) as server, open_raw(server) as client:
        await ask_api_versions(client)
        async with open_raw(server) as other:
            assert await other.is_closed()
        assert server.counters.refused == 1


async def test_rate_of_new_connections_is_limited(autojump_clock):
    """The connections of all windows are accepted immediately, then one every half second, as in Kafka."""
    bounds = ConnectionQuotas(ConnectionBounds(rate=2), Windows(3, 1))
    async with open_server(quotas=bounds) as server, trio.open_nursery() as nursery:
        accepted = []

        async def ask():
            async with open_raw(server) as client:
                await ask_api_versions(client)
                accepted.append(trio.current_time())

        began = trio.current_time()
        for _ in range(10):
            nursery.start_soon(ask)
    assert sum(at - began < 0.5 for at in accepted) in (4, 5)
    assert accepted[-1] - began >= 2.0
    assert server.counters.delayed


async def test_lower_bound_closes_the_quietest_connections(autojump_clock):
    bounds = quotas(connections_max=3)
    async with (
        open_server(heartbeat, context=Toy(), quotas=bounds) as server,
        AsyncExitStack() as s,
    ):
        clients = [await s.enter_async_context(open_raw(server)) for _ in range(3)]
        for index in (2, 0, 1):
            await ask_api_versions(clients[index])
            await settled()
        bounds.change(ConnectionBounds(connections_max=1))
        assert await clients[2].is_closed()
        assert await clients[0].is_closed()
        await ask_api_versions(clients[1])
        assert (server.counters.excess_closed, bounds.total) == (2, 1)


async def test_waiting_connection_is_served_when_bound_rises(autojump_clock):
    bounds = quotas(connections_max=1)
    async with open_server(heartbeat, context=Toy(), quotas=bounds) as server:
        async with open_raw(server) as first, open_raw(server) as second:
            await ask_api_versions(first)
            await second.send(api_versions_frame(4, 3))
            await settled()
            assert server.counters.accepted == 1
            bounds.change(ConnectionBounds(connections_max=2))
            assert (await second.answer(18, 4))[0] == 3


async def test_node_replaces_a_client_connection():
    """A node's listener is admitted above the limit, and counts (KIP-402)."""
    clients, nodes = (Listener.bind(name, "127.0.0.1", 0) for name in ("CLIENTS", "NODES"))
    nodes.for_nodes = True
    bounds = quotas(connections_max=2)
    async with trio.open_nursery() as nursery:
        serve = partial(
            serve_listener, [clients, nodes], Registry((heartbeat,)), Toy(), quotas=bounds
        )
        server = await nursery.start(serve)
        async with open_raw(server, "CLIENTS") as first, open_raw(server, "CLIENTS") as second:
            await ask_api_versions(first)
            await ask_api_versions(second)
            async with open_raw(server, "NODES") as node:
                await ask_api_versions(node)
                assert await first.is_closed()
                await ask_api_versions(second)
        nursery.cancel_scope.cancel()


async def test_early_connection_is_delayed_and_not_served(mock_clock):
    """Otherwise a client that reconnects immediately after it was closed would be closed again at once, and so on."""
    delays = [0.0, 5.0, 0.0]
    asked_of = []

    def too_early(ip):
        asked_of.append(ip)
        return delays[len(asked_of) - 1]

    async with open_server(
        heartbeat, context=Toy(), quotas=ConnectionQuotas(too_early=too_early)
    ) as server:
        async with open_raw(server) as served, open_raw(server) as early:
            await ask_api_versions(served)
            await early.send(api_versions_frame())
            await settled()
            mock_clock.jump(4.9)
            await settled()
            with pytest.raises(BlockingIOError):
                early.stream.socket._sock.recv(1, socket.MSG_DONTWAIT)
            mock_clock.jump(0.2)
            assert await early.is_closed()
            async with open_raw(server) as later:
                await ask_api_versions(later)
        assert (server.counters.accepted, server.counters.refused) == (2, 1)
    assert asked_of == ["127.0.0.1"] * 3


async def test_ending_server_closes_early_connections(mock_clock):
    async with open_server(quotas=ConnectionQuotas(too_early=lambda _ip: 3600.0)) as server:
        client = await trio.open_tcp_stream(*server.addresses["PLAINTEXT"])
        await settled()
        assert server.counters.refused == 1
    async with client:
        assert await client.receive_some(1) == b""


@pytest.mark.slow
async def test_many_simultaneous_connections_are_served():
    async with open_server(heartbeat, context=Toy()) as server:
        socks = []
        try:
            for _ in range(400):
                sock = socket.socket()
                sock.setblocking(False)
                sock.connect_ex(server.addresses["PLAINTEXT"])
                socks.append(sock)
            with trio.fail_after(5):
                while server.counters.accepted < 400:
                    await settled()
        finally:
            for sock in socks:
                sock.close()
        await settled()
        assert not server.connections


# The end


async def test_drain_answers_requests_and_accepts_no_connection():
    toy = Toy()
    event = toy.defer("slow")
    async with open_server(heartbeat, context=toy) as server:
        async with open_raw(server) as busy, open_raw(server) as quiet:
            await ask_api_versions(quiet)
            await busy.send(heartbeat_frame("slow", 1) + heartbeat_frame("g", 2))
            await settled()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.drain, 10)
                assert await quiet.is_closed()
                with pytest.raises(OSError, match="connect"):
                    await trio.open_tcp_stream(*server.addresses["PLAINTEXT"])
                await busy.send(heartbeat_frame("late", 3))
                await settled()
                event.set()
                assert (await busy.heartbeat())[0] == 1
                assert (await busy.heartbeat())[0] == 2
                assert await busy.is_closed()
        assert toy.begun == ["slow", "g"]


async def test_drain_does_not_wait_forever(autojump_clock):
    toy = Toy()
    toy.defer("never")
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("never"))
        await settled()
        await server.drain(7)
        assert trio.current_time() == pytest.approx(7, abs=0.5)
        assert await client.frame() is None


async def test_cancelled_server_closes_everything():
    toy = Toy()
    toy.defer("never")
    listener = Listener.bind("PLAINTEXT", "127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_listener, [listener], Registry([heartbeat]), toy)
        stream = await trio.open_tcp_stream(*listener.address)
        await stream.send_all(heartbeat_frame("never"))
        await settled()
        nursery.cancel_scope.cancel()
    assert not server.connections
    assert toy.connections["never"].closed
    with pytest.raises(OSError, match="descriptor"):
        listener.socket.accept()
    await stream.aclose()


@pytest.mark.parametrize("parked", [False, True], ids=["answered at once", "after a wait"])
async def test_idle_connection_uses_little_memory(parked):
    """128 MiB suffice for ten thousand of them, including the overhead of the interpreter and the kernel."""
    count, toy = 50, Toy()

    async def idle(stack):
        client = await stack.enter_async_context(open_raw(server))
        if parked:
            event = toy.defer("g")
        await client.send(heartbeat_frame("g"))
        if parked:
            await settled()
            event.set()
        assert await client.heartbeat()
        toy.deferred.clear()

    async with open_server(heartbeat, context=toy) as server, AsyncExitStack() as stack:
        await idle(stack)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(count):
                await idle(stack)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / count < IDLE_BYTES_MAX
