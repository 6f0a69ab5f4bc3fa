import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.buffers.framing import BadFrame, FrameBuffer


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(buffer: FrameBuffer, data: bytes, most: int = 1 << 30) -> list[bytes]:
    """Receives `data` as the transport does, at most `most` bytes at a time; returns copies of the frames."""
    frames = []
    view = memoryview(data)
    while view:
        room = buffer.room()
        count = min(len(room), len(view), most)
        assert count > 0
        room[:count] = view[:count]
        del room
        buffer.received(count)
        view = view[count:]
        while (found := buffer.next_frame()) is not None:
            frames.append(bytes(found))
            found = None
    return frames


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.integers(1, 700))
def test_frames_are_returned_unchanged(bodies, most):
    buffer = FrameBuffer(1000)
    assert feed(buffer, b"".join(map(frame, bodies)), most) == bodies
    assert buffer.unread == 0


@given(st.lists(st.binary(min_size=1, max_size=9000), max_size=9), st.integers(1, 5000))
def test_buffer_idle_between_receives_loses_nothing(bodies, most):
    buffer = FrameBuffer(9000)
    data = b"".join(map(frame, bodies))
    found = []
    for at in range(0, len(data), most):
        found += feed(buffer, data[at : at + most])
        buffer.rest()
    assert found == bodies


def test_resting_buffer_holds_nothing_and_frames_survive():
    buffer = FrameBuffer(100)
    room = buffer.room()
    room[:7] = frame(b"abc")
    buffer.received(7)
    held = buffer.next_frame()
    buffer.rest()
    assert len(buffer._buffer) == 0
    assert feed(buffer, frame(b"x" * 90)) == [b"x" * 90]
    assert bytes(held) == b"abc"


def test_frame_is_received_byte_by_byte():
    buffer = FrameBuffer(100)
    assert feed(buffer, frame(b"abc") + frame(b"d" * 100), 1) == [b"abc", b"d" * 100]


@pytest.mark.parametrize(
    "sizes", [(3_000_000, 10, 1_000_000, 5), (100_000,) * 30, (70_000, 1) * 10]
)
def test_large_frames_are_received(sizes):
    rng = random.Random(1)
    bodies = [rng.randbytes(size) for size in sizes]
    buffer = FrameBuffer(10_000_000)
    assert feed(buffer, b"".join(map(frame, bodies)), 50_000) == bodies


@pytest.mark.parametrize("size", [0, -1, -(2**31), 101, 2**31 - 1])
def test_invalid_frame_size_is_refused(size):
    buffer = FrameBuffer(100)
    with pytest.raises(BadFrame) as caught:
        feed(buffer, size.to_bytes(4, "big", signed=True))
    assert caught.value.size == size
    assert caught.value.guess is None


def test_largest_frame_is_accepted():
    assert feed(FrameBuffer(100), frame(bytes(100))) == [bytes(100)]


@pytest.mark.parametrize(
    ("head", "guess"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP request"),
        (b"POST /topics", "HTTP request"),
        (b"PRI * HTTP/2.0", "HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"SSH-2.0-OpenSSH", "SSH"),
    ],
)
def test_banner_of_other_protocol_is_named(head, guess):
    with pytest.raises(BadFrame, match=guess):
        feed(FrameBuffer(100 << 20), head)


def test_memory_follows_received_not_declared_bytes():
    buffer = FrameBuffer(100 << 20)
    feed(buffer, (100 << 20).to_bytes(4, "big") + bytes(1000))
    assert len(buffer._buffer) <= 4096
    feed(buffer, bytes(300_000))
    assert len(buffer._buffer) <= 4 * 300_000


def test_held_frame_is_never_overwritten():
    buffer = FrameBuffer(1 << 20)
    rng = random.Random(2)
    held = []
    for size in [1, 10, 1000, 4000, 4092, 5000, 65532, 65536, 200_000] * 4:
        body = rng.randbytes(size)
        room_left = memoryview(frame(body))
        while room_left:
            room = buffer.room()
            count = min(len(room), len(room_left), 3000)
            room[:count] = room_left[:count]
            del room
            buffer.received(count)
            room_left = room_left[count:]
        view = buffer.next_frame()
        held.append((body, view[len(view) // 2 :]))
        del view
    assert all(bytes(view) == body[len(body) // 2 :] for body, view in held)


def test_buffer_is_reused_once_unreferenced():
    buffer = FrameBuffer(1 << 20)
    feed(buffer, frame(bytes(200_000)))
    before = buffer._buffer
    for _ in range(10):
        feed(buffer, frame(bytes(200_000)))
    assert buffer._buffer is before


def test_shrink_frees_memory_and_keeps_unread_bytes():
    buffer = FrameBuffer(1 << 20)
    feed(buffer, frame(bytes(200_000)) + b"\0\0")
    assert len(buffer._buffer) > 100_000
    buffer.shrink()
    assert len(buffer._buffer) <= 65536
    assert feed(buffer, b"\0\1x") == [b"x"]
    buffer.shrink()
    assert len(buffer._buffer) <= 65536
    assert feed(buffer, frame(b"again")) == [b"again"]


def test_buffer_has_room_behind_untaken_frames():
    buffer = FrameBuffer(1 << 20)
    bodies = [bytes([i]) * 30_000 for i in range(20)]
    data = memoryview(b"".join(map(frame, bodies)))
    while data:
        room = buffer.room()
        count = min(len(room), len(data))
        assert count
        room[:count] = data[:count]
        del room
        buffer.received(count)
        data = data[count:]
    assert [bytes(buffer.next_frame()) for _ in bodies] == bodies
