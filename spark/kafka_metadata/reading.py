"""The batches of a range of a metadata log, control batches too, wherever the range reads from."""

from __future__ import annotations

from collections.abc import Iterator

from log.batches.batch import BatchView
from spark.kafka_log.plan import LogRange
from spark.kafka_log.read import Wanted, batches_of


def batches_in(
    piece: LogRange, *, include_control: bool = True, verify_crc: bool = True
) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of those that hold any of the range's offsets. Raises DataUnreadable."""
    return batches_of(piece, Wanted((), include_control, verify_crc))


def name_of(piece: LogRange) -> str:
    """The file, for errors and the columns `file`."""
    return piece.path
