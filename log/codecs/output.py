"""The output of a decompressor: its limit, its assembly, and its errors."""

from __future__ import annotations

from trimaran.wire.errors import RemoteProtocolError

Bytes = bytes | bytearray | memoryview

# The output grows by this size, or by four times the received bytes: a declared size is never allocated before its
# bytes exist.
CHUNK_BYTES = 32 * 1024


class OutputTooLarge(RemoteProtocolError):
    """The decompressed bytes would exceed the caller's limit."""


class TooManyParts(RemoteProtocolError):
    """There are more blocks or members than are decompressed in one step; `pieces` accepts any number."""

    def __init__(self, codec: str, parts_max: int, what: str) -> None:
        super().__init__(f"damaged {codec} data: more than {parts_max} {what}")


class BytesAfterEnd(RemoteProtocolError):
    """The stream is whole, but other bytes follow: `output` is the content that Java's readers of gzip and lz4
    return.
    """

    def __init__(self, codec: str, output: bytes | bytearray) -> None:
        super().__init__(f"damaged {codec} data: bytes after the end")
        self.output = output


def too_large(limit_bytes: int) -> OutputTooLarge:
    return OutputTooLarge(f"compressed records expand to more than {limit_bytes} bytes")


def damaged(codec: str, why: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"damaged {codec} data: {why}")


def step_bytes(data: Bytes) -> int:
    """Returns the number of bytes to request from a library in one call: each call has a cost, so this is the
    decompressed size of most data.
    """
    return max(CHUNK_BYTES, 4 * len(data))


class Output:
    """The concatenated pieces; a single piece, the usual case, is not copied.

    `room` is one byte more than permitted, so that an excess is detected.
    """

    __slots__ = ("_limit_bytes", "joined", "room")

    def __init__(self, limit_bytes: int) -> None:
        self.joined: bytes | bytearray = b""
        self.room = limit_bytes + 1
        self._limit_bytes = limit_bytes

    def add(self, piece: bytes) -> None:
        self.room -= len(piece)
        if self.room <= 0:
            raise too_large(self._limit_bytes)
        if not self.joined:
            self.joined = piece
        elif isinstance(self.joined, bytes):
            self.joined = bytearray().join((self.joined, piece))
        else:
            # Concatenated in place: a thousand separate pieces would fragment the heap.
            self.joined += piece
