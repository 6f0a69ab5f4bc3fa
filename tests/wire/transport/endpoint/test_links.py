"""A cut link: its connections stay, no bytes pass, and sent bytes arrive afterwards."""

import socket
from collections import deque

import pytest
import trio
import trio.testing

from tests.wire.transport.endpoint.stream_endpoint import StreamEndpoint
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.transport.client.node_connection import connect
from trimaran.wire.transport.endpoint import links
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint
from trimaran.wire.transport.endpoint.send_queue import SendQueue

PORT = 9092


@pytest.fixture
def cut_ports(monkeypatch):
    monkeypatch.setattr(links, "_cut_ports", None)
    ports = bytearray(links.PORTS)
    links.obey(ports)
    return ports


@pytest.fixture
def pair(cut_ports):
    """Returns our guarded endpoint, and the peer's stream."""
    ours, peer = trio.testing.memory_stream_pair()
    return links.guarded(StreamEndpoint(ours), PORT), peer


def queue_of(data):
    queue = SendQueue()
    queue.pieces = deque([memoryview(data)])
    queue.size += len(data)
    return queue


async def test_nothing_is_received_before_the_cut_ends(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    await peer.send_all(b"while it is cut")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def heal():
            await trio.sleep(0.09)
            cut_ports[PORT] = 0

        assert await endpoint.receive(FrameBuffer(100)) == len(b"while it is cut")
    assert trio.current_time() - began == pytest.approx(0.1)


async def test_arrived_bytes_are_not_received_during_cut(cut_ports):
    ours, peer = socket.socketpair()
    with ours, peer:
        endpoint, frames = links.guarded(SocketEndpoint(ours), PORT), FrameBuffer(100)
        peer.send(b"while it is cut")
        cut_ports[PORT] = 1
        assert endpoint.receive_nowait(frames) == 0
        cut_ports[PORT] = 0
        assert endpoint.receive_nowait(frames) == len(b"while it is cut")
        assert endpoint.receive_nowait(frames) == 0


async def test_nothing_is_sent_before_the_cut_ends(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    queue = queue_of(b"waits")
    endpoint.send_nowait(queue)
    with trio.move_on_after(0.1) as scope:
        await endpoint.send(queue)
    assert scope.cancelled_caught
    assert queue
    cut_ports[PORT] = 0
    await endpoint.send(queue)
    assert await peer.receive_some() == b"waits"


async def test_peer_learns_of_end_after_the_cut(pair, cut_ports, autojump_clock):
    endpoint, peer = pair
    cut_ports[PORT] = 1
    await endpoint.aclose()
    assert not endpoint.peer_is_gone()
    with trio.move_on_after(0.1) as scope:
        await peer.receive_some()
    assert scope.cancelled_caught
    cut_ports[PORT] = 0
    assert await peer.receive_some() == b""


async def test_no_connection_is_made_over_a_cut_link(cut_ports, autojump_clock):
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    cut_ports[port] = 1
    with pytest.raises(ConnectionLost, match=r"in 0\.1 s"):
        await connect("127.0.0.1", port, timeout=0.1)
    await listeners[0].aclose()


def test_no_endpoint_is_guarded_if_nothing_is_cut(monkeypatch):
    monkeypatch.setattr(links, "_cut_ports", None)
    ours, _ = trio.testing.memory_stream_pair()
    endpoint = StreamEndpoint(ours)
    assert links.guarded(endpoint, PORT) is endpoint


class TellingEndpoint:
    """An endpoint that completes immediately, and records the calls."""

    received_at, seconds = 3.0, 9.0

    def __init__(self):
        self.asked = []

    async def handshake(self):
        self.asked.append("handshake")
        return "principal"

    async def receive(self, frames):
        self.asked.append(("receive", frames))
        return 5

    def receive_nowait(self, frames):
        self.asked.append(("receive_nowait", frames))
        return 6

    def send_nowait(self, queue):
        self.asked.append(("send_nowait", queue))

    async def send(self, queue):
        self.asked.append(("send", queue))

    def peer_is_gone(self):
        self.asked.append("peer_is_gone")
        return True

    def give_up(self):
        self.asked.append("give_up")

    async def aclose(self):
        self.asked.append("aclose")


ASKED = {
    "handshake": ((), "handshake", "principal"),
    "receive": (("frames",), ("receive", "frames"), 5),
    "send": (("queue",), ("send", "queue"), None),
    "aclose": ((), "aclose", None),
}


@pytest.mark.parametrize("name", ASKED)
async def test_whole_link_passes_everything_at_once(cut_ports, autojump_clock, name):
    given, told, answer = ASKED[name]
    inner = TellingEndpoint()
    endpoint = links.guarded(inner, PORT)
    cut_ports[PORT + 1] = 1
    assert await getattr(endpoint, name)(*given) == answer
    assert inner.asked == [told]
    assert trio.current_time() == 0


@pytest.mark.parametrize("name", ["handshake", "send"])
async def test_handshake_or_send_waits_during_cut(cut_ports, autojump_clock, name):
    given, told, answer = ASKED[name]
    inner = TellingEndpoint()
    endpoint = links.guarded(inner, PORT)
    cut_ports[PORT] = 1
    with trio.move_on_after(0.1) as scope:
        await getattr(endpoint, name)(*given)
    assert (scope.cancelled_caught, inner.asked) == (True, [])
    cut_ports[PORT] = 0
    assert await getattr(endpoint, name)(*given) == answer
    assert inner.asked == [told]


async def test_bytes_during_the_cut_arrive_at_its_end(cut_ports, autojump_clock, monkeypatch):
    inner = TellingEndpoint()
    endpoint = links.guarded(inner, PORT)
    monkeypatch.setattr(links.time, "perf_counter", lambda: trio.current_time() + 100)
    assert (endpoint.received_at, endpoint.seconds) == (3.0, 0.0)
    cut_ports[PORT] = 1
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def heal():
            await trio.sleep(0.09)
            assert inner.asked == [("receive", "frames")]
            cut_ports[PORT] = 0

        assert await endpoint.receive("frames") == 5
    assert trio.current_time() == pytest.approx(0.1)
    assert endpoint.received_at == trio.current_time() + 100


def test_non_waiting_calls_do_nothing_during_the_cut(cut_ports):
    inner = TellingEndpoint()
    endpoint = links.guarded(inner, PORT)
    cut_ports[PORT] = 1
    assert endpoint.receive_nowait("frames") == 0
    assert endpoint.peer_is_gone() is False
    endpoint.send_nowait("queue")
    assert inner.asked == []
    endpoint.give_up()
    assert inner.asked == ["give_up"]
    cut_ports[PORT] = 0
    assert endpoint.receive_nowait("frames") == 6
    assert endpoint.peer_is_gone() is True
    endpoint.send_nowait("queue")
    assert inner.asked[1:] == [
        ("receive_nowait", "frames"),
        "peer_is_gone",
        ("send_nowait", "queue"),
    ]


async def test_connection_closed_during_the_cut_ends_with_it(cut_ports, autojump_clock):
    """The task that closes the connection continues, even if it is cancelled."""
    inner = TellingEndpoint()
    endpoint = links.guarded(inner, PORT)
    cut_ports[PORT] = 1
    task = trio.lowlevel.current_task()
    before = task._schedule_points
    with trio.CancelScope() as scope:
        scope.cancel()
        await endpoint.aclose()
    assert not scope.cancelled_caught
    assert task._schedule_points > before
    await trio.sleep(0.1)
    assert inner.asked == []
    cut_ports[PORT] = 0
    await trio.sleep(0.02)
    await trio.testing.wait_all_tasks_blocked()
    assert inner.asked == ["aclose"]


def test_each_port_has_its_own_cut(monkeypatch):
    monkeypatch.setattr(links, "_cut_ports", None)
    assert not links.is_cut(PORT)
    ports = bytearray(1 << 16)
    links.obey(ports)
    ports[65_535] = 1
    assert [links.is_cut(port) for port in (0, 65_534, 65_535)] == [False, False, True]
    assert len(ports) == links.PORTS
