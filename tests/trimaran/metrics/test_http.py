"""The HTTP server of metrics, over sockets: requests of scrapers, browsers and strangers."""

import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio

from trimaran.metrics import http
from trimaran.metrics.http import HttpResponse, serve_http


async def _respond(request):
    if request.path == "/fails":
        raise RuntimeError("as it must")
    return HttpResponse(200, f"{request.path} {request.headers.get('accept')}\n".encode())


@asynccontextmanager
async def serving(respond=_respond):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, listener, respond)
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _ask(port, data):
    """Returns all received bytes until the server closes, or falls silent after a complete response."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        await stream.send_eof()
        return b"".join([piece async for piece in stream])


async def test_requests_on_one_connection_are_answered_in_turn():
    async with serving() as port:
        one = b"GET /a?x=1 HTTP/1.1\r\nHost: a\r\nAccept: text\r\n\r\n"
        found = await _ask(port, one + b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    assert found.count(b"HTTP/1.1 200") == 2
    assert found.index(b"/a text\n") < found.index(b"/b None\n")


async def test_head_returns_length_without_body():
    async with serving() as port:
        found = await _ask(port, b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"Content-Length: 8" in found
    assert found.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /a HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (b"GET /fails HTTP/1.1\r\nHost: a\r\n\r\n", 500),
    ],
)
async def test_unserved_request_is_refused_server_continues(request_bytes, status):
    async with serving() as port:
        found = await _ask_rudely(port, request_bytes)
        assert found.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"200" in await _ask(port, b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")


async def _ask_rudely(port, data):
    """Returns the response to a request that was not read completely."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, stream, data)
            return await stream.receive_some()


async def _send(stream, data):
    with suppress(trio.BrokenResourceError):
        await stream.send_all(data)


async def test_disconnect_midway_is_harmless():
    async with serving() as port:
        assert (await _ask(port, b"GET /a HT")).startswith(b"HTTP/1.1 400 ")
        assert b"200" in await _ask(port, b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost:"])
async def test_idle_connections_keep_no_probe_out(sent):
    """A supervisor whose probe gets no response restarts the node."""
    async with serving() as port, AsyncExitStack() as idle:
        for _ in range(http.CONNECTIONS_MAX):
            stream = await idle.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await stream.send_all(sent)
        for _ in range(3):
            assert b"200" in await _ask(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")


async def test_stalled_connections_do_not_block_probes():
    async def respond(request):
        return HttpResponse(200, bytes(5 << 20) if request.path == "/metrics" else b"")

    async with serving(respond) as port, AsyncExitStack() as slow:
        for _ in range(http.CONNECTIONS_MAX):
            stream = trio.SocketStream(trio.socket.socket())
            # small, so that the kernel's buffers cannot hold the response
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await stream.socket.connect(("127.0.0.1", port))
            await slow.enter_async_context(stream)
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await stream.receive_some(1) == b"H"  # the response is being sent
        for _ in range(3):
            assert b"200" in await _ask(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")


async def test_connection_that_waits_longest_makes_room(monkeypatch):
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    request = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
    async with (
        serving() as port,
        await trio.open_tcp_stream("127.0.0.1", port) as first,
        await trio.open_tcp_stream("127.0.0.1", port) as second,
    ):
        for stream in (first, second, first):  # the first has sent the latest request
            await stream.send_all(request)
            assert b"200" in await stream.receive_some()
        assert b"200" in await _ask(port, request)
        assert await second.receive_some() == b""
        await first.send_all(request)
        assert b"200" in await first.receive_some()


def test_address_with_most_connections_makes_room(monkeypatch):
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)
    places = http._Places()
    made = [http._Connection(None, _respond, None, places) for _ in range(3)]
    places.open = dict(zip(made, ("kubelet", "scanner", "scanner"), strict=True))
    places.waiting = dict.fromkeys(made)
    assert places.make_room()
    assert list(places.open) == [made[0], made[2]]


async def test_connections_being_answered_are_not_closed(monkeypatch):
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 1)
    begun, may_end = trio.Event(), trio.Event()

    async def slow(request):
        begun.set()
        await may_end.wait()
        return HttpResponse(200, b"late\n")

    async with (
        serving(slow) as port,
        await trio.open_tcp_stream("127.0.0.1", port) as first,
    ):
        await first.send_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        await begun.wait()
        async with await trio.open_tcp_stream("127.0.0.1", port) as second:
            assert await second.receive_some() == b""
        may_end.set()
        assert b"200" in await first.receive_some()


async def test_silent_client_is_disconnected(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    with trio.fail_after(http.REQUEST_SECONDS + 1):
        await http._Connection(ours, _respond, None, http._Places()).serve()
    await ours.aclose()
    assert await theirs.receive_some() == b""
