"""A cut link: its connections stay, nothing passes, and what was sent arrives afterwards."""

import socket
from collections import deque

import pytest
import trio
import trio.testing

from wire.client.errors import ConnectionLost
from wire.framing import FrameBuffer
from wire.transport import links
from wire.transport.endpoint import SocketEndpoint, StreamEndpoint
from wire.transport.node_connection import connect
from wire.transport.sending import SendQueue

PORT = 9092


@pytest.fixture
def cut_ports(monkeypatch):
    monkeypatch.setattr(links, "_cut_ports", None)
    ports = bytearray(links.PORTS)
    links.obey(ports)
    return ports


@pytest.fixture
def pair(cut_ports):
    """Our guarded endpoint, and the peer's stream."""
    ours, peer = trio.testing.memory_stream_pair()
    return links.guarded(StreamEndpoint(ours), PORT), peer


def queue_of(data):
    queue = SendQueue()
    queue.pieces = deque([memoryview(data)])
    queue.size += len(data)
    return queue


async def test_nothing_is_received_before_the_end_of_the_cut(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    await peer.send_all(b"while it is cut")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def heal():
            await trio.sleep(5)
            cut_ports[PORT] = 0

        assert await endpoint.receive(FrameBuffer(100)) == len(b"while it is cut")
    assert 5 <= trio.current_time() - began < 5.1


async def test_nothing_that_has_come_is_received_while_it_is_cut(cut_ports):
    ours, peer = socket.socketpair()
    with ours, peer:
        endpoint, frames = links.guarded(SocketEndpoint(ours), PORT), FrameBuffer(100)
        peer.send(b"while it is cut")
        cut_ports[PORT] = 1
        assert endpoint.receive_nowait(frames) == 0
        cut_ports[PORT] = 0
        assert endpoint.receive_nowait(frames) == len(b"while it is cut")
        assert endpoint.receive_nowait(frames) == 0


async def test_nothing_is_sent_before_the_end_of_the_cut(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    queue = queue_of(b"waits")
    endpoint.send_nowait(queue)
    with trio.move_on_after(5) as scope:
        await endpoint.send(queue)
    assert scope.cancelled_caught
    assert queue
    cut_ports[PORT] = 0
    await endpoint.send(queue)
    assert await peer.receive_some() == b"waits"


async def test_the_peer_learns_of_an_end_when_the_link_is_whole(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    await endpoint.aclose()
    assert not endpoint.peer_is_gone()
    with trio.move_on_after(5) as scope:
        await peer.receive_some()
    assert scope.cancelled_caught
    cut_ports[PORT] = 0
    assert await peer.receive_some() == b""


async def test_no_connection_is_made_over_a_cut_link(cut_ports, autojump_clock):
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    cut_ports[port] = 1
    with pytest.raises(ConnectionLost, match="in 3 s"):
        await connect("127.0.0.1", port, timeout=3)
    await listeners[0].aclose()


def test_where_nothing_is_ever_cut_no_endpoint_is_guarded(monkeypatch):
    monkeypatch.setattr(links, "_cut_ports", None)
    ours, _ = trio.testing.memory_stream_pair()
    endpoint = StreamEndpoint(ours)
    assert links.guarded(endpoint, PORT) is endpoint
