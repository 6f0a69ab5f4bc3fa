"""The checks of the page cache before a piece of a file is sent, and the reads of a thread."""

import os
import threading

import pytest
import trio

from trimaran.wire.transport.endpoint import file_piece as page_cache
from trimaran.wire.transport.endpoint.file_piece import FilePiece, is_cold, read_cached, warm

MEBIBYTE = 1 << 20


class Slice:
    size, position = 3 * MEBIBYTE, 100

    def __init__(self, **values):
        vars(self).update(values)

    def fileno(self):
        return 7


class System:
    """Records the reads, and returns scripted results."""

    def __init__(self, answer=None):
        self.asked = []
        self.answer = answer

    def preadv(self, fd, buffers, position, flags):
        assert (fd, flags) == (7, 8)
        self.asked.append((position, len(buffers[0])))
        if isinstance(self.answer, Exception):
            raise self.answer
        found = self.answer(position) if callable(self.answer) else self.answer
        if isinstance(found, Exception):
            raise found
        return len(buffers[0]) if found is None else found

    def pread(self, fd, size, position):
        assert fd == 7
        self.asked.append(("pread", position, size, threading.current_thread().name))
        return b"x" * size


@pytest.fixture
def system(monkeypatch):
    found = System()
    monkeypatch.setattr(page_cache, "_NOWAIT", 8)
    monkeypatch.setattr(os, "preadv", found.preadv)
    monkeypatch.setattr(os, "pread", found.pread)
    return found


def test_first_and_last_byte_of_stretch_are_tried(system):
    piece = FilePiece(Slice())
    assert not is_cold(piece)
    assert system.asked == [(100, 1), (100 + MEBIBYTE - 1, 1)]
    assert piece.cached_until == 100 + MEBIBYTE
    assert not is_cold(piece)
    assert len(system.asked) == 2
    piece.advance(MEBIBYTE - 1)
    assert not is_cold(piece)
    assert len(system.asked) == 2
    piece.advance(1)
    assert not is_cold(piece)
    assert system.asked[2:] == [(100 + MEBIBYTE, 1), (100 + 2 * MEBIBYTE - 1, 1)]
    short = FilePiece(Slice(size=5))
    assert not is_cold(short)
    assert system.asked[4:] == [(100, 1), (104, 1)]
    assert short.cached_until == 105


@pytest.mark.parametrize("cold", [100, 104])
def test_stretch_is_cold_if_either_byte_is(system, cold):
    piece = FilePiece(Slice(size=5))
    system.answer = lambda position: BlockingIOError() if position == cold else None
    assert is_cold(piece)
    assert piece.cached_until == 100
    assert is_cold(piece)


def test_unsupported_file_system_counts_as_cached(system, monkeypatch):
    piece = FilePiece(Slice(size=5))
    system.answer = OSError("unknown")
    assert not is_cold(piece)
    assert piece.cached_until == 105
    monkeypatch.setattr(page_cache, "_NOWAIT", None)
    piece = FilePiece(Slice(size=5))
    asked = len(system.asked)
    assert not is_cold(piece)
    assert (piece.cached_until, len(system.asked)) == (105, asked)


async def test_thread_reads_the_next_stretch(system):
    piece = FilePiece(Slice())
    piece.advance(50)
    await trio.to_thread.run_sync(warm, piece)
    ((word, position, size, thread),) = system.asked
    assert (word, position, size) == ("pread", 150, MEBIBYTE)
    assert thread != threading.current_thread().name
    assert piece.cached_until == 150 + MEBIBYTE
    assert (piece.position, piece.size) == (150, 3 * MEBIBYTE - 50)


async def test_short_piece_is_read_only_to_its_end(system):
    piece = FilePiece(Slice(size=5))
    await trio.to_thread.run_sync(warm, piece)
    assert system.asked[0][:3] == ("pread", 100, 5)
    assert piece.cached_until == 105


def test_small_piece_is_read_whole_if_cached(system, monkeypatch):
    piece = Slice(size=9)
    assert read_cached(piece) == bytes(9)
    assert system.asked == [(100, 9)]
    system.answer = 8
    assert read_cached(piece) is None
    system.answer = BlockingIOError()
    assert read_cached(piece) is None
    assert all(len(call) == 2 for call in system.asked)
    system.answer = OSError("unknown")
    assert read_cached(piece) == b"x" * 9
    assert system.asked[-1][:3] == ("pread", 100, 9)
    monkeypatch.setattr(page_cache, "_NOWAIT", None)
    assert read_cached(piece) == b"x" * 9
    monkeypatch.setattr(os, "pread", lambda *_: b"x" * 8)
    assert read_cached(piece) is None
