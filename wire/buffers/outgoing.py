"""The buffer of an encoded message: bytes, and pieces of files that the transport sends itself.

Record batches travel from log segments to sockets without passing through Python (`sendfile`), so
an encoded message is bytes with marked places where a piece of a file belongs.
"""

from typing import Protocol

from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.errors import LocalProtocolError


class Splice(Protocol):
    """`size` bytes at `position` of the open file `fileno()`; valid until the message is sent."""

    @property
    def size(self) -> int: ...

    @property
    def position(self) -> int: ...

    def fileno(self) -> int: ...


Piece = bytes | bytearray | memoryview | Splice
Records = Piece | list[Piece] | tuple[Piece, ...]


class Outgoing(bytearray):
    """Bytes to send, with splices, each to be inserted before the byte at its place.

    `splices` ascend by place; splices with the same place keep their order.
    """

    __slots__ = ("splices",)

    def __init__(self) -> None:  # a new bytearray is empty even without `super`
        self.splices: list[tuple[int, Splice]] = []

    @property
    def wire_size(self) -> int:
        """Returns the bytes on the wire, including splices."""
        return len(self) + sum(splice.size for _, splice in self.splices)


def records_view(value: Records | None) -> memoryview:
    """Returns the decoded record bytes of a message as one view; an absent (null) value is empty.

    Raises:
        LocalProtocolError: the value consists of splices or pieces, which exist only in messages built by this node.
    """
    if value is None:
        return memoryview(b"")
    if isinstance(value, memoryview):
        return value
    if isinstance(value, bytes | bytearray):
        return memoryview(value)
    raise LocalProtocolError("these records are still pieces of files")


def write_records(out: bytearray, value: Records, flexible: bool) -> None:
    """Appends the size and the pieces of `value`; splices go to `out.splices`."""
    if isinstance(value, (bytes, memoryview, bytearray)):
        size = len(value)
        if flexible:
            write_uvarint(out, size + 1)
        else:
            out += size.to_bytes(4, "big")
        out += value
    elif isinstance(value, (list, tuple)):
        _write_size(out, sum(map(_size, value)), flexible)
        for piece in value:
            if isinstance(piece, (bytes, memoryview, bytearray)):
                out += piece
            else:
                _write_splice(out, piece)
    else:
        _write_size(out, value.size, flexible)
        _write_splice(out, value)


def _size(piece: Piece) -> int:
    return len(piece) if isinstance(piece, (bytes, memoryview, bytearray)) else piece.size


def _write_size(out: bytearray, size: int, flexible: bool) -> None:
    if flexible:
        write_uvarint(out, size + 1)
    else:
        out += size.to_bytes(4, "big")


def _write_splice(out: bytearray, splice: Splice) -> None:
    if not isinstance(out, Outgoing):
        raise LocalProtocolError("a splice needs an Outgoing to be encoded into")
    if splice.size:
        out.splices.append((len(out), splice))
