"""The limit for the decompressed size of one record: `max.decompressed.message.bytes`.

Source: `DefaultRecord.readFrom` and `LogValidator` of Kafka 4.4. As in Kafka, the limit applies to records of
compressed batches, and the length field of a record is not counted.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, pairwise

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.columns import MalformedRecords, decode_some
from trimaran.wire.buffers.primitives import read_varint
from trimaran.wire.errors import ErrorCode, KafkaError

# The number of records that are decoded in one step: less than 1 MiB of columns.
_RECORDS_AT_ONCE = 16_384


def check_record_sizes(batch: BatchView, body: Buffer, limit: int) -> None:
    """Checks each record of a compressed batch with the decompressed `body`, up to the first malformed one: those are
    refused by `check_records`.

    Raises:
        KafkaError: INVALID_RECORD: a record has more than `limit` bytes.
    """
    if len(body) <= limit:
        return
    with suppress(MalformedRecords):
        for columns in decode_some(batch, body, _RECORDS_AT_ONCE):
            end = len(columns.data)  # the end of the last record, or a position after it
            for start, next_start in pairwise(chain(columns.record_start, (end,))):
                if next_start - start > limit:
                    _check_size(columns.data, start, limit)


def _check_size(data: Buffer, start: int, limit: int) -> None:
    size, _ = read_varint(memoryview(data), start)
    if size > limit:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Invalid record size: {size} exceeds the configured maximum record size of {limit}.",
        )
