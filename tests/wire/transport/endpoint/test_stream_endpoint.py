"""The bytes that an endpoint writes to a stream, and reads from it, piece by piece."""

import os

import pytest
import trio

from tests.wire.transport.endpoint.stream_endpoint import StreamEndpoint
from tests.wire.transport.endpoint.test_endpoint_steps import queue_of as frames_of
from trimaran.wire.buffers.framing import FrameBuffer

MEBIBYTE = 1 << 20


class Stream:
    def __init__(self, *data):
        self.data, self.sent = list(data), []

    async def receive_some(self, most):
        assert most == 65_536
        await trio.lowlevel.checkpoint()
        return self.data.pop(0)

    async def send_all(self, data):
        assert type(data) is bytes
        self.sent.append(data)
        await trio.lowlevel.checkpoint()
        if self.held is not None:
            assert self.held.size > 0, "what is under way is not gone"

    held = None


async def test_stream_of_any_length_is_read_into_frames():
    data = (70_000).to_bytes(4, "big") + bytes(range(250)) * 280
    made = StreamEndpoint(Stream(data[:3], data[3:], b""))
    frames = FrameBuffer(MEBIBYTE)
    assert [await made.receive(frames) for _ in range(3)] == [3, 70_001, 0]
    assert bytes(frames.next_frame()) == data[4:]
    assert made.seconds == 0.0
    assert (made.receive_nowait(frames), made.peer_is_gone()) == (0, False)


async def test_stream_is_sent_bytes_and_file_pieces(monkeypatch):
    def pread(fd, size, position):
        assert fd == 9
        return bytes([position % 250]) * min(size, 151_000 - position)

    monkeypatch.setattr(os, "pread", pread)
    stream = Stream()
    made = StreamEndpoint(stream)
    queue = frames_of(5, -140_000, 20_000)
    stream.held = queue
    await made.send(queue)
    assert [len(piece) for piece in stream.sent] == [9 + 4, 65_536, 65_536, 8_928, 4, 20_000]
    assert [piece[0] for piece in stream.sent[1:4]] == [0, 66_536 % 250, 132_072 % 250]
    assert (queue.size, queue.sent) == (0, 160_017)
    stream.held = queue = frames_of(-160_000)
    queue.sent_bytes(4)
    with pytest.raises(OSError, match="a file ends before the end of a slice of it"):
        await made.send(queue)
