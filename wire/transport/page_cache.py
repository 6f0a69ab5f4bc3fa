"""Whether sending a piece of a file would wait for a disk, which on the loop would make everybody wait.

Linux tells (`preadv2` with RWF_NOWAIT); elsewhere, and on file systems that do not know the flag, pieces are sent as they are.
"""

from __future__ import annotations

import os

import trio

from wire.transport.sending import FilePiece

# Looked at, and read by a thread, in one go: a disk's readahead is far below.
_STRETCH_BYTES = 1 << 20
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)


def is_cold(piece: FilePiece) -> bool:
    """Whether the next stretch of `piece` is surely not in memory; its first and its last byte are tried."""
    if _NOWAIT is None or piece.position < piece.cached_until:
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
