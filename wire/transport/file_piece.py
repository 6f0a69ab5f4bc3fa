"""The part of a file that is still to be sent on a connection."""

from __future__ import annotations

from trimaran.wire.buffers.outgoing import Splice


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
