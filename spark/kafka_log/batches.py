"""The level `batches`: a row for each record batch, from its header. Pure, without Spark.

A batch belongs to the range that its last offset is in, so that parts of a log read one after another give it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import HEADER_BYTES, BatchView, Buffer, has_valid_crc
from trimaran.log.batches.columns import DATA_BYTES_MAX, decode_columns
from trimaran.log.batches.records import records_in_pieces
from trimaran.log.old_formats.old_batches import as_v2, timestamp_type_id
from trimaran.spark.data_source.columns import TIMESTAMP, microseconds
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.bulk import PIECE_BYTES
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.origin import Located, Range
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.messages.control import decode_control_key

CHUNK_BATCHES = 5_000  # of one Arrow batch: about a MiB


class BatchRow(NamedTuple):
    """A batch as found; `body` is its decompressed records, None where they were not needed."""

    piece: Range
    located: Located
    body: Buffer | None = None

    @property
    def batch(self) -> BatchView:
        return self.located.batch


def read_batches(ranges: Iterable[Range], request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Rows of the `batches` level.

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
    kinds = [BATCH_COLUMNS[name][0] for name in request.columns]
    arrays = [pa.array(values, kind) for values, kind in zip(by_column, kinds, strict=True)]
    schema = pa.schema(list(zip(request.columns, kinds, strict=True)))
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _values(row: BatchRow, request: ReadRequest) -> list[object] | None:
    try:
        return [BATCH_COLUMNS[name][1](row) for name in request.columns]
    except (RemoteProtocolError, KafkaError) as error:
        why = f"{row.piece.name}, offset {row.batch.base_offset}: {error}"
        lose(why, fail=request.reading.fail_on_data_loss)
        return None


def _control_type(row: BatchRow) -> str | None:
    """ABORT, COMMIT, LEADER_CHANGE …; None for data. A control batch is never compressed and holds such
    a record first.
    """
    if not row.batch.is_control or not row.batch.count:
        return None
    columns = decode_columns([row.batch], DATA_BYTES_MAX)
    return decode_control_key(columns.key(0) or b"").name


def _record_count(row: BatchRow) -> int:
    """Without the records below the log's start: the batch in which it lies is kept whole."""
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


BATCH_COLUMNS: dict[str, tuple[pa.DataType, Callable[[BatchRow], object]]] = {
    "topic": (pa.string(), lambda r: r.piece.topic),
    "partition": (pa.int32(), lambda r: r.piece.partition),
    "broker_id": (pa.int32(), lambda r: r.piece.node_id if r.piece.node_id >= 0 else None),
    "base_offset": (pa.int64(), lambda r: r.batch.base_offset),
    "last_offset": (pa.int64(), lambda r: r.batch.last_offset),
    "record_count": (pa.int32(), _record_count),
    "batch_bytes": (pa.int32(), lambda r: r.batch.size),
    "compression": (pa.string(), lambda r: r.batch.compression.name.lower()),
    "base_timestamp": (TIMESTAMP, lambda r: microseconds(r.batch.base_timestamp)),
    "max_timestamp": (TIMESTAMP, lambda r: microseconds(r.batch.max_timestamp)),
    "timestampType": (pa.int32(), lambda r: timestamp_type_id(r.batch)),
    "leader_epoch": (pa.int32(), lambda r: r.batch.leader_epoch),
    "producer_id": (pa.int64(), lambda r: r.batch.producer_id),
    "producer_epoch": (pa.int32(), lambda r: r.batch.producer_epoch),
    "base_sequence": (pa.int32(), lambda r: r.batch.base_sequence),
    "is_transactional": (pa.bool_(), lambda r: r.batch.is_transactional),
    "is_control": (pa.bool_(), lambda r: r.batch.is_control),
    "control_type": (pa.string(), _control_type),
    "delete_horizon_ms": (pa.int64(), lambda r: r.batch.delete_horizon_ms),
    "crc": (pa.int64(), lambda r: r.batch.crc),
    "crc_valid": (pa.bool_(), lambda r: has_valid_crc(r.batch)),
    # Where it lies; null for what a broker sent, but for `file`, which names cluster and partition then.
    "file": (pa.string(), lambda r: r.piece.name),
    "position": (pa.int64(), lambda r: r.located.position if r.located.position >= 0 else None),
    "log_dir": (pa.string(), lambda r: r.piece.log_dir),
    # Not in the default schema, for it costs decompression; a schema of the user's may name it.
    "uncompressed_bytes": (pa.int64(), _uncompressed_bytes),
}
BATCH_SCHEMA = pa.schema([(name, kind) for name, (kind, _) in BATCH_COLUMNS.items()])
