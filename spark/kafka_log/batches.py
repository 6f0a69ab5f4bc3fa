"""The level `batches`: a row for each record batch, from its header. Pure, without Spark.

A batch belongs to the range of its last offset, so that reading a log in parts yields each batch once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import HEADER_BYTES, BatchView, Buffer, has_valid_crc
from trimaran.log.batches.columns import DATA_BYTES_MAX, decode_columns
from trimaran.log.batches.records import records_in_pieces
from trimaran.log.old_formats.old_batches import as_v2, timestamp_type_id
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    field,
    microseconds,
    schema_of,
)
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.bulk import PIECE_BYTES
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.directories.file_range import FileRange
from trimaran.spark.origins.origin import Located, Range
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import Offset
from trimaran.wire.messages.control import decode_control_key

CHUNK_BATCHES = 5_000  # rows of one Arrow batch: about a MiB


class BatchRow(NamedTuple):
    """A batch and its place; `body` has its decompressed records, None if the columns do not need them."""

    piece: Range
    located: Located
    body: Buffer | None = None

    @property
    def batch(self) -> BatchView:
        return self.located.batch


def read_batches(ranges: Iterable[Range], request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the level `batches`.

    Raises:
        DataUnreadable: damaged or missing data. OSError.
    """
    for piece in ranges:
        rows: list[BatchRow] = []
        for located in piece.batches(request.reading):
            if located.batch.next_offset > piece.end_offset:
                continue
            rows.append(BatchRow(piece, located))
            if len(rows) >= CHUNK_BATCHES:
                yield from _rows(rows, request)
                rows = []
        if rows:
            yield from _rows(rows, request)


def _rows(rows: Sequence[BatchRow], request: ReadRequest) -> Iterator[pa.RecordBatch]:
    made = [values for row in rows if (values := _values(row, request)) is not None]
    by_column = zip(*made, strict=True) if made else ((),) * len(request.columns)
    kinds = [BATCH_COLUMNS[name].kind for name in request.columns]
    arrays = [pa.array(values, kind) for values, kind in zip(by_column, kinds, strict=True)]
    schema = pa.schema(list(zip(request.columns, kinds, strict=True)))
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _values(row: BatchRow, request: ReadRequest) -> list[object] | None:
    try:
        return [BATCH_COLUMNS[name].value(row) for name in request.columns]
    except (RemoteProtocolError, KafkaError) as error:
        why = f"{row.piece.name}, offset {row.batch.base_offset}: {error}"
        lose(why, fail=request.reading.fail_on_data_loss)
        return None


def _control_type(row: BatchRow) -> str | None:
    """Returns ABORT, COMMIT, LEADER_CHANGE …; None for data. A control batch is never compressed, and its first record
    has the type.
    """
    if not row.batch.is_control or not row.batch.count:
        return None
    columns = decode_columns([row.batch], DATA_BYTES_MAX)
    return decode_control_key(columns.key(0) or b"").name


def _cleaner_offset(row: BatchRow) -> Offset | None:
    """Returns the offset below which the log may have been compacted; None if a broker sent the batch."""
    return row.piece.log.dense_from if isinstance(row.piece, FileRange) else None


def _record_count(row: BatchRow) -> int:
    """Counts the records except those below the start of the log; the batch with the start is kept as a whole."""
    batch = row.batch
    log_start = max(row.piece.log_start, row.located.log_start)
    if batch.base_offset >= log_start:
        return batch.count
    columns = decode_columns([as_v2(batch)], DATA_BYTES_MAX)
    return sum(offset >= log_start for offset in columns.offset)


def _uncompressed_bytes(row: BatchRow) -> int:
    if row.body is not None:
        return HEADER_BYTES + len(row.body)
    batch = row.batch
    pieces = records_in_pieces(as_v2(batch), PIECE_BYTES) if batch.count else ()
    return HEADER_BYTES + sum(map(len, pieces))


# fmt: off
BATCH_COLUMNS = {
    column.name: column
    for column in (
        Column("topic", STRING, field("piece.key.topic")),
        Column("partition", INT, field("piece.key.partition")),
        Column("broker_id", INT, lambda row: row.piece.node_id if row.piece.node_id >= 0 else None),
        Column("base_offset", LONG, field("batch.base_offset")),
        Column("last_offset", LONG, field("batch.last_offset")),
        Column("record_count", INT, _record_count),
        Column("batch_bytes", INT, field("batch.size")),
        Column("compression", STRING, lambda row: row.batch.compression.name.lower()),
        Column("base_timestamp", TIMESTAMP, lambda row: microseconds(row.batch.base_timestamp)),
        Column("max_timestamp", TIMESTAMP, lambda row: microseconds(row.batch.max_timestamp)),
        Column("timestampType", INT, lambda row: timestamp_type_id(row.batch)),
        Column("leader_epoch", INT, field("batch.leader_epoch")),
        Column("producer_id", LONG, field("batch.producer_id")),
        Column("producer_epoch", INT, field("batch.producer_epoch")),
        Column("base_sequence", INT, field("batch.base_sequence")),
        Column("is_transactional", BOOL, field("batch.is_transactional")),
        Column("is_control", BOOL, field("batch.is_control")),
        Column("control_type", STRING, _control_type),
        Column("delete_horizon_ms", LONG, field("batch.delete_horizon_ms")),
        Column("crc", LONG, field("batch.crc")),
        Column("crc_valid", BOOL, lambda row: has_valid_crc(row.batch)),
        # The place of a batch; null if a broker sent it, except `file`, which then names cluster and partition.
        Column("file", STRING, field("piece.name")),
        Column("position", LONG, lambda row: row.located.position if row.located.position >= 0 else None),
        Column("log_dir", STRING, field("piece.log_dir")),
        Column("log_start_offset", LONG, field("piece.log_start")),
        Column("cleaner_offset", LONG, _cleaner_offset),
        # Not in the default schema, since it requires decompression; the user's schema may name it.
        Column("uncompressed_bytes", LONG, _uncompressed_bytes),
    )
}
# fmt: on
BATCH_SCHEMA = schema_of(BATCH_COLUMNS.values())
