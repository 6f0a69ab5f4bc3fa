"""The level `records`: converts ranges to Arrow batches with the columns of Spark's Kafka source. Pure, without Spark.

A range yields all of its records or raises: a batch that is missing or has a wrong CRC is never skipped (S8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.records import records_bytes
from trimaran.log.codecs.output import OutputTooLarge, TooManyParts
from trimaran.log.old_formats.old_batches import as_v2, timestamp_type_id
from trimaran.spark.data_source.columns import (
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    schema_of,
    timestamps,
)
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS, BatchRow
from trimaran.spark.kafka_log.bulk import (
    HEADERS,
    LARGE_BYTES,
    DecodedRecords,
    Ints,
    decode,
    decode_in_pieces,
    gather,
    gather_headers,
)
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.origin import Located, Range, Reading
from trimaran.wire.errors import KafkaError, RemoteProtocolError

CHUNK_RECORDS = 50_000  # records of one Arrow batch: enough to make its fixed cost small
CHUNK_BYTES = 8 << 20  # decompressed bytes, a bound of memory; a larger batch is a chunk by itself
# Bytes of keys and values in one Arrow batch, which stays below 32 MB with all other columns.
ARROW_BYTES_MAX = 24 << 20


class RecordChunk(NamedTuple):
    """Consecutive batches of a range, converted from old formats, with their decompressed records.

    `bodies` is None for a single batch whose records do not fit into memory.
    """

    piece: Range
    located: Sequence[Located]
    batches: Sequence[BatchView]
    bodies: Sequence[Buffer] | None


def read_records(ranges: Iterable[Range], request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the level `records` in Arrow batches of at most 32 MB (unless one record is larger).

    Raises:
        DataUnreadable: damaged or missing data. OSError.
    """
    for piece in ranges:
        for chunk in _chunks(piece, request.reading):
            try:
                yield from _rows(chunk, request)
            except RemoteProtocolError as error:
                _lose_batch(piece, chunk.located[0].batch, error, request.reading)


def _lose_batch(piece: Range, batch: BatchView, error: Exception, reading: Reading) -> None:
    lose(f"{piece.name}, offset {batch.base_offset}: {error}", fail=reading.fail_on_data_loss)


def _chunks(piece: Range, reading: Reading) -> Iterator[RecordChunk]:
    """Yields lists of batches of about a chunk each, by their decompressed sizes."""
    located: list[Located] = []
    batches: list[BatchView] = []
    bodies: list[Buffer] = []
    records = size = 0
    for each_batch in piece.batches(reading):
        # Compaction leaves batches without records; they are marked as compressed and have nothing to decompress.
        if not each_batch.batch.count:
            continue
        try:
            batch = as_v2(each_batch.batch)
            body = _body(batch)
        except (RemoteProtocolError, KafkaError) as error:
            _lose_batch(piece, each_batch.batch, error, reading)
            continue
        body_bytes = CHUNK_BYTES if body is None else len(body)
        if located and (records + batch.count > CHUNK_RECORDS or size + body_bytes > CHUNK_BYTES):
            yield RecordChunk(piece, located, batches, bodies)
            located, batches, bodies, records, size = [], [], [], 0, 0
        if body is None:
            yield RecordChunk(piece, [each_batch], [batch], None)
            continue
        located.append(each_batch)
        batches.append(batch)
        bodies.append(body)
        records += batch.count
        size += len(body)
    if located:
        yield RecordChunk(piece, located, batches, bodies)


def _body(batch: BatchView) -> Buffer | None:
    """Returns the decompressed records, None if they are too large for memory. Raises RemoteProtocolError or
    KafkaError.
    """
    try:
        body = records_bytes(batch, LARGE_BYTES)
    except (OutputTooLarge, TooManyParts):
        return None
    return body if len(body) <= LARGE_BYTES else None


def _rows(chunk: RecordChunk, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    if chunk.bodies is not None:
        yield from _arrow(chunk, decode(chunk.batches, chunk.bodies), request)
        return
    for some in decode_in_pieces(chunk.batches[0], request.reading.batch_bytes_max):
        yield from _arrow(chunk, some, request)


def _arrow(
    chunk: RecordChunk, records: DecodedRecords, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    piece = chunk.piece
    start: int | Ints = piece.start_offset
    if (
        chunk.located[-1].log_start > start
    ):  # batches that were read before the start moved are kept
        start = np.array([max(start, located.log_start) for located in chunk.located])[
            records.batch
        ]
    records = records.keep((records.offset >= start) & (records.offset < piece.end_offset))
    schema = pa.schema([ALL_COLUMNS.field(name) for name in request.columns])
    for some in records.pieces(ARROW_BYTES_MAX):
        arrays = [_column(name, chunk, some) for name in request.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, chunk: RecordChunk, records: DecodedRecords) -> pa.Array:
    if name in RECORD_COLUMNS:
        return RECORD_COLUMNS[name].value(chunk, records)
    column = BATCH_COLUMNS[name]
    rows = [
        BatchRow(chunk.piece, item, body)
        for item, body in zip(chunk.located, chunk.bodies or (None,), strict=True)
    ]
    return pa.array(list(map(column.value, rows)), column.kind).take(pa.array(records.batch))


# --- the columns of a record ---


def _partitions(chunk: RecordChunk, records: DecodedRecords) -> pa.Array:
    return pa.repeat(pa.scalar(chunk.piece.key.partition, INT), len(records))


def _timestamp_types(chunk: RecordChunk, records: DecodedRecords) -> pa.Array:
    kinds = np.array([timestamp_type_id(located.batch) for located in chunk.located], np.int32)
    return pa.array(kinds[records.batch], pa.int32())


# fmt: off
RECORD_COLUMNS = {
    column.name: column
    for column in (
        Column("key", pa.binary(), lambda _, records: gather(records.data, records.key)),
        Column("value", pa.binary(), lambda _, records: gather(records.data, records.value)),
        Column("topic", STRING, lambda chunk, records: pa.repeat(chunk.piece.key.topic, len(records))),
        Column("partition", INT, _partitions),
        Column("offset", LONG, lambda _, records: pa.array(records.offset, LONG)),
        Column("timestamp", TIMESTAMP, lambda _, records: timestamps(records.timestamp_ms)),
        Column("timestampType", INT, _timestamp_types),
        Column("headers", HEADERS, lambda _, records: gather_headers(records)),
    )
}
# fmt: on
RECORD_SCHEMA = schema_of(RECORD_COLUMNS.values())
# `includeBatchInfo`: columns of the record's batch.
BATCH_INFO = tuple(
    name for name in BATCH_COLUMNS if name not in {*RECORD_COLUMNS, "base_timestamp"}
)
ALL_COLUMNS = schema_of([*RECORD_COLUMNS.values(), *(BATCH_COLUMNS[name] for name in BATCH_INFO)])
