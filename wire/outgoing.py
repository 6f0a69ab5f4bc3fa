"""What a message is encoded into: bytes, and pieces of files that the transport sends itself.

Record batches travel from log segments to sockets without passing through Python (`sendfile`), so
an encoded message is bytes with marked places where a piece of a file belongs.
"""

from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

from wire.errors import LocalProtocolError
from wire.primitives import write_uvarint


@runtime_checkable
class Splice(Protocol):
    """`size` bytes at `position` of the open file `fileno()`; valid until the message is sent."""

    @property
    def size(self) -> int: ...

    @property
    def position(self) -> int: ...

    def fileno(self) -> int: ...


Records = (
    bytes | bytearray | memoryview | Splice | Sequence[bytes | bytearray | memoryview | Splice]
)


class Outgoing(bytearray):
    """Bytes to send, in which each splice belongs before the byte at its place.

    `splices` is ascending by place; equal places keep their order.
    """

    __slots__ = ("splices",)

    def __init__(self) -> None:
        super().__init__()
        self.splices: list[tuple[int, Splice]] = []

    @property
    def wire_size(self) -> int:
        """Bytes on the wire, splices included."""
        return len(self) + sum(splice.size for _, splice in self.splices)


def records_view(value: Records | None) -> memoryview:
    """The decoded record bytes of a message as one view; an absent (null) value is empty.

    Raises:
        LocalProtocolError: the value is made of splices or pieces, as only we build them.
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
    pieces: Sequence[object]
    if isinstance(value, bytes | bytearray | memoryview) or hasattr(value, "fileno"):
        pieces = (value,)
    else:
        pieces = cast(Sequence[object], value)
    size = sum(
        len(p) if isinstance(p, bytes | bytearray | memoryview) else cast(Splice, p).size
        for p in pieces
    )
    if flexible:
        write_uvarint(out, size + 1)
    else:
        out += size.to_bytes(4, "big")
    for piece in pieces:
        if isinstance(piece, bytes | bytearray | memoryview):
            out += piece
        elif not isinstance(out, Outgoing):
            raise LocalProtocolError("a splice needs an Outgoing to be encoded into")
        elif cast(Splice, piece).size:
            out.splices.append((len(out), cast(Splice, piece)))
