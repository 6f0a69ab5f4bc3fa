"""Batches whose records are too many to be held at once, decoded piece by piece: a task stays small whatever a batch
expands to.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.columns import decode_next
from trimaran.log.batches.records import records_in_pieces
from trimaran.log.codecs.output import OutputTooLarge
from trimaran.spark.kafka_log.bulk import Decoded, decoded
from trimaran.wire.errors import RemoteProtocolError

LARGE_BYTES = 32 << 20  # of records, decompressed; what has more is taken piece by piece
PIECE_BYTES = 8 << 20
RECORDS_MAX = 50_000  # of a piece: a megabyte holds 150,000 of seven bytes, and each takes 52 bytes of columns


class RecordTooLarge(RemoteProtocolError):
    """A record, or a block of snappy that it may lie in, is larger than `maxBatchBytes`."""


def decode_in_pieces(batch: BatchView, record_bytes_max: int) -> Iterator[Decoded]:
    """The records of a batch of v2 in order.

    Raises:
        RecordTooLarge: it, and one beyond, would have to be held.
        RemoteProtocolError: the records are not what the header says; those before may have been given.
    """
    rest: Buffer = b""
    left = batch.count
    pieces = records_in_pieces(batch, PIECE_BYTES)
    try:
        for piece in pieces:
            rest = b"".join((rest, piece))
            while left:
                columns, end = decode_next(batch, rest, min(left, RECORDS_MAX))
                if not len(columns):
                    break
                yield decoded(columns)
                left -= len(columns)
                rest = memoryview(rest)[end:]
            if len(rest) > record_bytes_max:
                raise too_large(f"record {batch.count - left}", record_bytes_max)
    except OutputTooLarge:
        raise too_large("a block of snappy", PIECE_BYTES) from None
    if left or rest:
        what = f"{left} of its {batch.count} records are not there" if left else "bytes are left"
        raise RemoteProtocolError(f"{what} behind record {batch.count - left - 1}")


def too_large(what: str, bytes_max: int) -> RecordTooLarge:
    return RecordTooLarge(
        f"{what} has more than {bytes_max:,} bytes; raise maxBatchBytes, and the memory of executors with it"
    )
