"""The batches of a range of a metadata log, control batches too, wherever the range reads from."""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.log.batches.batch import BatchView
from trimaran.spark.origins.origin import Range, Reading


def batches_in(
    piece: Range, *, include_control: bool = True, verify_crc: bool = True
) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of those that hold any of the range's offsets. Raises DataUnreadable."""
    reading = Reading(include_control=include_control, verify_crc=verify_crc)
    return ((found.position, found.batch) for found in piece.batches(reading))


def name_of(piece: Range) -> str:
    """The file, for errors and the columns `file`."""
    return piece.name
