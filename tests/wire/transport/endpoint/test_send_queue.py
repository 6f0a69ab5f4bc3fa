"""The queue of bytes to send, compared with a twin that keeps the bytes as they must arrive; and its layout in
memory.
"""

import os
from random import Random

import pytest

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.transport.endpoint.file_piece import FilePiece
from trimaran.wire.transport.endpoint.send_queue import NOTHING, SendQueue

DATA = Random(5).randbytes(2_000_000)


class Slice:
    def __init__(self, fd, position, size):
        self.fd, self.position, self.size = fd, position, size

    def fileno(self):
        return self.fd


@pytest.fixture
def fd(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(DATA)
    fd = os.open(path, os.O_RDONLY)
    os.pread(fd, len(DATA), 0)
    yield fd
    os.close(fd)


def frame_of(fd, *parts):
    """Returns a frame of bytes and of pieces of the file (position, size), and the bytes that must arrive."""
    out, expected = Outgoing(), b""
    for part in parts:
        if isinstance(part, bytes):
            out += part
            expected += part
        else:
            out.splices.append((len(out), Slice(fd, *part)))
            expected += DATA[part[0] : part[0] + part[1]]
    return out, len(expected).to_bytes(4, "big") + expected


def layout(queue):
    """Returns the sizes of the pieces: negative for pieces of files, in a tuple for views."""
    return [
        -piece.size
        if isinstance(piece, FilePiece)
        else len(piece)
        if isinstance(piece, bytearray)
        else (len(piece),)
        for piece in queue.pieces
    ]


LAYOUTS = [
    ([[b"x"]], [5]),
    ([[b"x"], [b"y"]], [10]),
    ([[b"x" * 16_384]], [16_388]),
    ([[b"x" * 16_385]], [4, (16_385,)]),
    ([[b"x" * 16_385], [b"y"]], [4, (16_385,), 5]),
    # A buffer is filled up to 64 KiB before another one begins.
    ([[b"x" * 16_380]] * 4, [65_536]),
    ([[b"x" * 16_380]] * 4 + [[b"y"]], [65_536, 4 + 1]),
    ([[b"x" * 16_380]] * 3 + [[b"x" * 16_379], [b"y"]], [65_535 + 5]),
    # Small pieces of files are read immediately.
    ([[b"head", (0, 32_768), b"tail"]], [32_780]),
    ([[b"head", (0, 32_769), b"tail"]], [8, -32_769, 4]),
    ([[(0, 32_769)]], [4, -32_769]),
    ([[(0, 10), (10, 10)]], [24]),
    ([[b"h" * 16_384, (0, 32_769)]], [16_388, -32_769]),
    ([[b"h" * 16_385, (0, 10), b"t" * 16_385]], [4, (16_385,), 10, (16_385,)]),
    # Up to a mebibyte of one response; the last piece may exceed it.
    ([[(n * 32_768, 32_768) for n in range(33)]], [65_540] + [65_536] * 15 + [-32_768]),
    ([[(n * 32_767, 32_767) for n in range(34)]], None),
]


@pytest.mark.parametrize(("frames", "expected"), LAYOUTS)
def test_pieces_are_joined_except_large_ones(fd, frames, expected):
    queue, wire = SendQueue(), b""
    for parts in frames:
        frame, bytes_of = frame_of(fd, *parts)
        queue.add_frame(frame)
        wire += bytes_of
    if expected is not None:
        assert layout(queue) == expected
    else:  # thirty-three of them exceed a mebibyte less thirty-two bytes
        assert [size for size in layout(queue) if isinstance(size, int) and size < 0] == [-32_767]
    of_files = sum(piece.size for piece in queue.pieces if isinstance(piece, FilePiece))
    assert (queue.size, queue.of_files) == (len(wire), of_files)
    assert queue.in_memory == len(wire) - of_files
    assert queue.sent == 0
    assert taken(queue) == wire
    assert (queue.size, queue.of_files, queue.sent) == (0, 0, len(wire))
    assert queue.pieces is NOTHING


def taken(queue):
    """Sends all bytes, with one send for each piece."""
    got = b""
    while queue:
        piece = queue.pieces[0]
        if isinstance(piece, FilePiece):
            got += os.pread(piece.splice.fileno(), piece.size, piece.position)
            queue.sent_of_file(piece.size)
        else:
            got += piece
            queue.sent_bytes(len(piece))
    return got


def test_piece_not_in_memory_stays_in_file(fd, monkeypatch):
    def cold(_fd, _buffers, _position, _flags):
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", cold)
    queue = SendQueue()
    queue.add_frame(frame_of(fd, b"head", (7, 10), b"tail")[0])
    assert layout(queue) == [8, -10, 4]
    assert (queue.size, queue.of_files) == (22, 10)


@pytest.mark.parametrize("seed", range(12))
def test_unsent_rest_follows_the_sent_part(fd, seed):
    random, queue, rest, sent = Random(seed), SendQueue(), b"", 0
    sizes = (1, 9, 16_384, 16_385, 40_000, 70_000)
    for _ in range(60):
        if random.random() < 0.35 or not queue:
            parts = [
                bytes([random.randrange(256)]) * random.choice(sizes)
                if random.random() < 0.6
                else (random.randrange(1000), random.choice(sizes))
                for _ in range(random.randrange(1, 5))
            ]
            frame, wire = frame_of(fd, *parts)
            queue.add_frame(frame)
            rest += wire
        piece = queue.pieces[0]
        if not isinstance(piece, FilePiece):
            before_file = 0
            for each_piece in queue.pieces:
                if isinstance(each_piece, FilePiece):
                    break
                before_file += len(each_piece)
            count = random.choice([1, before_file, random.randrange(1, before_file + 1)])
            queue.sent_bytes(count)
        elif random.random() < 0.4:
            count = 0
            held, bound = queue.in_memory, random.choice([1, 5000, 65_536])
            size = min(piece.size, bound)
            queue.load_front(bound)
            assert queue.in_memory == held + size
            assert bytes(queue.pieces[0]) == rest[:size]
        else:
            count = random.choice([1, piece.size])
            queue.sent_of_file(count)
        rest, sent = rest[count:], sent + count
        assert (queue.size, queue.sent) == (len(rest), sent)
        assert bool(queue) == bool(rest)
        of_files = sum(piece.size for piece in queue.pieces if isinstance(piece, FilePiece))
        assert (queue.of_files, queue.in_memory) == (of_files, len(rest) - of_files)
        assert contents(queue) == rest
    assert taken(queue) == rest


def contents(queue):
    return b"".join(
        os.pread(piece.splice.fileno(), piece.size, piece.position)
        if isinstance(piece, FilePiece)
        else bytes(piece)
        for piece in queue.pieces
    )


def test_truncated_file_cannot_be_loaded(fd):
    queue = SendQueue()
    queue.add_frame(frame_of(fd, (0, 40_000))[0])
    queue.sent_bytes(4)
    queue.pieces[0].position = len(DATA)
    with pytest.raises(OSError, match="a file ends before the end of a slice of it"):
        queue.load_front(100)
