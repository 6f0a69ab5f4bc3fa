"""Detects whether sending a piece of a file would wait for a disk, because a wait on the loop would block all
connections.

Linux reports this (`preadv2` with RWF_NOWAIT); on other systems, and on file systems without the flag, pieces are sent
unchecked.
"""

from __future__ import annotations

import os

from trimaran.wire.buffers.outgoing import Splice

# The number of bytes checked, or read by a thread, at a time: the readahead of a disk is far smaller.
_STRETCH_BYTES = 1 << 20
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)


class FilePiece:
    """The unsent part of a splice; it is known to be in the page cache up to `cached_until`."""

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
    """Returns all bytes of a small splice; None if some are not in the page cache, or missing from the file."""
    fd, size = splice.fileno(), splice.size
    if _NOWAIT is not None:
        data = bytearray(size)
        try:
            return data if os.preadv(fd, [data], splice.position, _NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError:  # the file system does not support the flag
            pass
    found = os.pread(fd, size, splice.position)
    return found if len(found) == size else None


def is_cold(piece: FilePiece) -> bool:
    """Whether the next stretch of `piece` is known not to be in the page cache; its first and last bytes are tested.

    If False, the piece may be sent up to `cached_until`.
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


def warm(piece: FilePiece) -> None:
    """Reads the next stretch of `piece`, so that it is in the page cache. Called in a thread, because it waits for the
    disk.
    """
    count = min(piece.size, _STRETCH_BYTES)
    position = piece.position
    os.pread(piece.splice.fileno(), count, position)
    piece.cached_until = position + count
