"""Finds whether sending a piece of a file would wait for a disk, which on the loop would make all connections wait.

Linux tells (`preadv2` with RWF_NOWAIT); elsewhere, and on file systems that do not know the flag, pieces are sent as
they are.
"""

from __future__ import annotations

import os

import trio

from trimaran.wire.buffers.outgoing import Splice

# Looked at, and read by a thread, in one go: a disk's readahead is far below.
_STRETCH_BYTES = 1 << 20
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)


class FilePiece:
    """The part of a splice that is still to be sent; up to `cached_until` it is known to be in the page cache."""

    __slots__ = ("cached_until", "position", "size", "splice")

    def __init__(self, splice: Splice) -> None:
        self.splice = splice
        self.position = splice.position
        self.size = splice.size
        self.cached_until = splice.position

    def advance(self, count: int) -> None:
        self.position += count
        self.size -= count


def read_cached(splice: Splice) -> bytes | bytearray | None:
    """All bytes of a small splice; None if some are surely not in memory, or not there at all."""
    fd, size = splice.fileno(), splice.size
    if _NOWAIT is not None:
        data = bytearray(size)
        try:
            return data if os.preadv(fd, [data], splice.position, _NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError:  # the file system does not know the flag
            pass
    found = os.pread(fd, size, splice.position)
    return found if len(found) == size else None


def is_cold(piece: FilePiece) -> bool:
    """Whether the next stretch of `piece` is surely not in memory; its first and its last byte are tried.

    If not, it may be sent up to `cached_until`.
    """
    if piece.position < piece.cached_until:
        return False
    if _NOWAIT is None:
        piece.cached_until = piece.position + piece.size
        return False
    count = min(piece.size, _STRETCH_BYTES)
    fd, last = piece.splice.fileno(), piece.position + count - 1
    try:
        for position in (piece.position, last):
            os.preadv(fd, [bytearray(1)], position, _NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    piece.cached_until = last + 1
    return False


async def warm(piece: FilePiece) -> None:
    """Has a thread read the next stretch of `piece`, so that it is in memory."""
    count = min(piece.size, _STRETCH_BYTES)
    fd, position = piece.splice.fileno(), piece.position
    await trio.to_thread.run_sync(os.pread, fd, count, position)
    piece.cached_until = position + count
