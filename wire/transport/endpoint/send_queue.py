"""The send queue of one connection: bytes, and pieces of files that are sent by `sendfile`.

Sockets are not handled here: `trimaran.wire.transport.endpoint.endpoint` empties the queue.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.transport.endpoint.file_piece import FilePiece, read_cached

# A piece smaller than this is appended to the previous one, so that one system call sends more pieces.
_COPY_BYTES_MAX = 16384
# A file piece smaller than this is cheaper to read into memory than to send by a separate `sendfile`.
_SPLICE_COPY_BYTES_MAX = 32768
# The maximum number of bytes of one answer that are copied, which bounds the memory held for a peer that does not read.
_SPLICES_COPIED_MAX = 1 << 20


Piece = bytearray | memoryview | FilePiece

# The empty deque that idle connections share, because each takes 760 bytes. It always stays empty.
NOTHING: deque[Any] = deque(maxlen=0)


class SendQueue:
    """The pieces in order. `size` counts the bytes still to be sent, including those of files."""

    __slots__ = ("of_files", "pieces", "sent", "size")

    def __init__(self) -> None:
        self.pieces = NOTHING
        self.size = 0
        self.of_files = 0
        self.sent = 0

    def __bool__(self) -> bool:
        return self.size > 0

    @property
    def in_memory(self) -> int:
        """Returns the bytes in memory that wait to be sent."""
        return self.size - self.of_files

    def add_frame(self, frame: Outgoing) -> None:
        """Appends a frame, preceded by its size. The queue owns `frame` from now on."""
        size = frame.wire_size if frame.splices else len(frame)
        head = size.to_bytes(4, "big")
        if size <= _COPY_BYTES_MAX and not frame.splices:
            self._add_small(head + frame)
        else:
            self._add_small(head)
            if frame.splices:
                self._add_spliced(frame)
            else:
                self.pieces.append(memoryview(frame))
        self.size += size + 4

    def add_part(self, data: bytes | memoryview) -> None:
        """Appends bytes that are not a whole frame."""
        if self.pieces is NOTHING:
            self.pieces = deque()
        self.pieces.append(memoryview(data))
        self.size += len(data)

    def _add_spliced(self, frame: Outgoing) -> None:
        view = memoryview(frame)
        done = copied = 0
        for place, splice in frame.splices:
            if place > done:
                self._add_bytes(view[done:place])
                done = place
            is_small = splice.size <= _SPLICE_COPY_BYTES_MAX and copied < _SPLICES_COPIED_MAX
            data = read_cached(splice) if is_small else None
            if data is None:
                self.pieces.append(FilePiece(splice))
                self.of_files += splice.size
            else:
                self._add_small(data)
                copied += len(data)
        if done < len(frame):
            self._add_bytes(view[done:])

    def _add_bytes(self, data: Outgoing | memoryview) -> None:
        if len(data) <= _COPY_BYTES_MAX:
            self._add_small(data)
        else:
            self.pieces.append(memoryview(data))

    def _drop_front(self) -> None:
        self.pieces.popleft()
        if not self.pieces:
            self.pieces = NOTHING

    def _add_small(self, data: bytes | bytearray | memoryview) -> None:
        last = self.pieces[-1] if self.pieces else None
        if type(last) is bytearray and len(last) < _COPY_BYTES_MAX * 4:
            last += data
            return
        if self.pieces is NOTHING:
            self.pieces = deque()
        self.pieces.append(bytearray(data))

    def sent_bytes(self, count: int) -> None:
        """Removes `count` bytes from the front; they must not belong to a file."""
        self.size -= count
        self.sent += count
        while count:
            piece = self.pieces[0]
            assert not isinstance(piece, FilePiece)
            if count < len(piece):
                self.pieces[0] = memoryview(piece)[count:]
                return
            count -= len(piece)
            self.pieces.popleft()
        if not self.pieces:
            self.pieces = NOTHING

    def sent_of_file(self, count: int) -> None:
        """Removes `count` bytes of the file piece at the front."""
        self.size -= count
        self.of_files -= count
        self.sent += count
        piece = self.pieces[0]
        assert isinstance(piece, FilePiece)
        piece.advance(count)
        if not piece.size:
            self._drop_front()

    def load_front(self, bytes_max: int) -> None:
        """Reads the first bytes of the file piece at the front into memory, for endpoints that cannot send files."""
        piece = self.pieces[0]
        assert isinstance(piece, FilePiece)
        data = os.pread(piece.splice.fileno(), min(piece.size, bytes_max), piece.position)
        if not data:
            raise OSError("a file ends before the end of a slice of it")
        piece.advance(len(data))
        self.of_files -= len(data)
        if not piece.size:
            self.pieces.popleft()
        self.pieces.appendleft(memoryview(data))
