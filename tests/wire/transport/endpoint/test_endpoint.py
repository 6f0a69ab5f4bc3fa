"""Pieces of files and bytes on real sockets and on memory streams."""

import os
import random
import socket
import threading

import pytest
import trio
import trio.testing

from tests.wire.transport.endpoint.stream_endpoint import StreamEndpoint
from tests.wire.transport.support import open_raw, open_server, request_frame, settled
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint
from trimaran.wire.transport.endpoint.send_queue import SendQueue
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles


class FileSlice:
    """A piece of an open file, as the log returns it."""

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd = fd
        self.position = position
        self.size = size

    def fileno(self) -> int:
        return self.fd


@pytest.fixture
def data():
    return random.Random(3).randbytes(3_000_000)


@pytest.fixture
def fd(tmp_path, data):
    path = tmp_path / "segment"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def frame_of(parts, fd, data) -> tuple[Outgoing, bytes]:
    """Returns a frame of given bytes and of pieces of the file (position, size), and the bytes that must arrive."""
    out, expected = Outgoing(), b""
    for part in parts:
        if isinstance(part, bytes):
            out += part
            expected += part
        else:
            position, size = part
            out.splices.append((len(out), FileSlice(fd, position, size)))
            expected += data[position : position + size]
    return out, len(expected).to_bytes(4, "big") + expected


FRAMES = [
    [b"x"],
    [b"y" * 100_000],
    [b"head", (0, 100), b"tail"],
    [b"head", (5, 2_999_000), b"tail"],
    [(7, 40_000)],
    [b"a", (0, 40_000), (40_000, 40_000), b"b" * 20_000, (99, 1), (2, 300_000)],
    [b"p" * 16_384, (0, 32_768), b"q" * 16_385, (0, 32_769)],
    [bytes([i]) * 40 for i in range(100)],
]


def pair():
    """Returns two connected TCP sockets with small buffers, so that sends are partial."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        a = socket.socket()
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        a.connect(listener.getsockname())
        b, _ = listener.accept()
        return a, b


async def receive_all(stream, size) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = await stream.receive_some(17_001)
        assert more
        got += more
    return bytes(got)


@pytest.mark.parametrize("kind", ["socket", "stream"])
async def test_queued_bytes_arrive(fd, data, kind):
    queue, expected = SendQueue(), b""
    for parts in FRAMES:
        frame, wire = frame_of(parts, fd, data)
        assert frame.wire_size == len(wire) - 4
        queue.add_frame(frame)
        expected += wire
    assert queue.size == len(expected)
    if kind == "socket":
        a, b = pair()
        endpoint = SocketEndpoint(a)
        receiver = trio.SocketStream(trio.socket.from_stdlib_socket(b))
    else:
        ours, receiver = trio.testing.lockstep_stream_pair()
        endpoint = StreamEndpoint(ours)
    async with trio.open_nursery() as nursery:
        endpoint.send_nowait(queue)
        nursery.start_soon(endpoint.send, queue)
        assert await receive_all(receiver, len(expected)) == expected
    assert not queue
    assert queue.sent == len(expected)
    assert not queue.pieces
    await endpoint.aclose()
    assert await receiver.receive_some() == b""
    await receiver.aclose()


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells")
async def test_uncached_file_bytes_are_read_by_thread(fd, data, monkeypatch):
    """No byte is in memory unless a thread has read it."""
    warmed, pread = [], os.pread

    def cold_preadv(_fd, buffers, position, flags):
        assert flags == os.RWF_NOWAIT
        raise BlockingIOError

    def noting_pread(fd, size, position):
        assert threading.current_thread() is not threading.main_thread()
        warmed.append((position, size))
        return pread(fd, size, position)

    monkeypatch.setattr(os, "preadv", cold_preadv)
    monkeypatch.setattr(os, "pread", noting_pread)
    frame, expected = frame_of([b"head", (7, 100), (500, 2_500_000), b"tail"], fd, data)
    queue = SendQueue()
    queue.add_frame(frame)
    a, b = pair()
    endpoint, receiver = SocketEndpoint(a), trio.SocketStream(trio.socket.from_stdlib_socket(b))
    async with trio.open_nursery() as nursery:
        endpoint.send_nowait(queue)
        assert not warmed
        nursery.start_soon(endpoint.send, queue)
        assert await receive_all(receiver, len(expected)) == expected
    mebibyte = 1 << 20
    assert warmed == [
        (7, 100),
        (500, mebibyte),
        (500 + mebibyte, mebibyte),
        (500 + 2 * mebibyte, 2_500_000 - 2 * mebibyte),
    ]
    await endpoint.aclose()
    await receiver.aclose()


@pytest.mark.parametrize("tries", [False, True])
@pytest.mark.parametrize("kind", ["socket", "stream"])
async def test_arriving_bytes_are_cut_into_frames(data, kind, tries):
    """This includes bytes that have already arrived and are received without waiting."""
    if kind == "socket":
        a, b = pair()
        endpoint, peer = SocketEndpoint(b), trio.SocketStream(trio.socket.from_stdlib_socket(a))
    else:
        ours, peer = trio.testing.memory_stream_pair()
        endpoint = StreamEndpoint(ours)
    bodies = [data[:size] for size in (1, 100, 70_000, 4, 400_000, 65_532, 9)]
    got = []
    frames = FrameBuffer(2_000_000)

    async def send():
        for body in bodies:
            await peer.send_all(len(body).to_bytes(4, "big") + body)
        await peer.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while (tries and endpoint.receive_nowait(frames)) or await endpoint.receive(frames):
            while (frame := frames.next_frame()) is not None:
                got.append(bytes(frame))
                frame = None
    assert got == bodies
    await endpoint.aclose()


@pytest.mark.parametrize("size", [100, 100_000])
async def test_short_file_is_an_error_not_a_hang(fd, data, size):
    a, b = pair()
    endpoint = SocketEndpoint(a)
    queue = SendQueue()
    frame = Outgoing()
    frame.splices.append((0, FileSlice(fd, len(data) - 50, size)))

    async def send():
        queue.add_frame(frame)
        await endpoint.send(queue)

    with b, pytest.raises(OSError, match="ends"):
        await send()
    await endpoint.aclose()


async def test_closing_wakes_all_waiters():
    a, b = pair()
    endpoint = SocketEndpoint(a)
    with b:
        async with trio.open_nursery() as nursery:

            async def wait():
                with pytest.raises(trio.ClosedResourceError):
                    await endpoint.receive(FrameBuffer(100))

            nursery.start_soon(wait)
            await settled()
            await endpoint.aclose()
            await endpoint.aclose()


class CountingSocket:
    """Records the calls of `send` and `sendmsg`, with their last argument."""

    def __init__(self, sock):
        self._sock = sock
        self.calls = []

    def __getattr__(self, name):
        method = getattr(self._sock, name)
        if name not in ("send", "sendmsg"):
            return method

        def counted(*args):
            self.calls.append((name, args[-1]))
            return method(*args)

        return counted


async def test_small_pieces_leave_together_and_heads_with_files(fd, data):
    a, b = pair()
    endpoint = SocketEndpoint(a)
    endpoint._socket = counting = CountingSocket(a)
    queue = SendQueue()
    for _ in range(50):
        queue.add_frame(frame_of([b"head", (0, 10), b"tail"], fd, data)[0])
    endpoint.send_nowait(queue)
    assert counting.calls == [("send", 0)]
    frame, _ = frame_of([b"head", (0, 50_000)], fd, data)
    queue.add_frame(frame)
    with b:
        async with trio.open_nursery() as nursery:
            receiver = trio.SocketStream(trio.socket.from_stdlib_socket(b))
            nursery.start_soon(receive_all, receiver, 50 * 22 + 50_008)
            await endpoint.send(queue)
    assert counting.calls[1:] == [("send", socket.MSG_MORE)]
    await endpoint.aclose()


@pytest.mark.parametrize("sizes", [[3], [0, 5, 0], [1_000_000, 3, 500_000, 40_000]])
async def test_fetch_response_contains_file_pieces(fd, data, sizes):
    @handles(FetchRequest, versions="4-18", access=open_to_all("a test"))
    def fetch(request, ctx, call):
        partitions = [
            PartitionData(
                partition_index=p.partition,
                high_watermark=1,
                aborted_transactions=None,
                records=FileSlice(fd, p.fetch_offset, p.partition_max_bytes),
            )
            for p in request.topics[0].partitions
        ]
        topic = FetchableTopicResponse(topic="t", partitions=partitions)
        return FetchResponse(responses=[topic])

    asked = [
        FetchPartition(partition=i, fetch_offset=i * 7, partition_max_bytes=size)
        for i, size in enumerate(sizes)
    ]
    topics = [FetchTopic(topic="t", partitions=asked)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
    async with open_server(fetch) as server, open_raw(server) as client:
        await client.send(request_frame(request, 12, 1) + request_frame(request, 11, 2))
        for version in (12, 11):
            _, response = await client.answer(1, version)
            for i, (partition, size) in enumerate(
                zip(response.responses[0].partitions, sizes, strict=True)
            ):
                assert bytes(partition.records) == data[i * 7 : i * 7 + size]


@pytest.mark.parametrize("gives_up", [False, True])
async def test_dropped_bytes_are_not_sent(gives_up):
    """The peer's window is full: bytes in the system's buffer would be sent when it reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with theirs:
        endpoint, queue = SocketEndpoint(mine), SendQueue()
        out = Outgoing()
        out += bytes(20_000_000)
        queue.add_frame(out)
        endpoint.send_nowait(queue)
        if gives_up:
            endpoint.give_up()
        await endpoint.aclose()
        assert queue.sent > received_by(theirs) if gives_up else queue.sent == received_by(theirs)


def received_by(peer):
    peer.settimeout(5)
    count = 0
    try:
        while data := peer.recv(1 << 20):
            count += len(data)
    except ConnectionResetError:
        pass
    return count
