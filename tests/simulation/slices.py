"""A slice with a single request, like the turn of a connection (`trimaran.wire.transport.scheduling.turn`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trimaran.wire.transport.scheduling.slice_end import slice_end


@contextmanager
def slice_of_requests() -> Iterator[None]:
    """Delays work that waits for the end of a slice until the end of the block."""
    slice_end().begin_slice()
    try:
        yield
    finally:
        slice_end().end_slice()
