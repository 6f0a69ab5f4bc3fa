"""What executors do: ranges of segments to Arrow record batches. Pure functions, without Spark; files are only read.

A range gives all of its records or an error: a batch that is not there or whose CRC is wrong is never skipped (S8).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from log.batches.batch import HEADER_BYTES, BatchView, has_valid_crc
from log.batches.records import RECORDS_BYTES_MAX, records_bytes
from log.disk.files import REAL_FILES
from log.inspection.reader import scan_batches
from log.old_formats.old_batches import as_v2, opened, timestamp_type_id
from log.segments.scan import read_batch, scan_headers
from log.segments.segment import DELETED_SUFFIX
from spark.kafka_log.bulk import HEADERS, Decoded, decode, gather, gather_headers
from spark.kafka_log.plan import LogRange
from spark.origins.origin import DataUnreadable
from wire.errors import KafkaError, RemoteProtocolError
from wire.messages.control import decode_control_key

CHUNK_RECORDS = 50_000  # of one Arrow batch: enough to make its fixed cost small
CHUNK_BYTES = 8 << 20  # and bounds its memory; a larger batch makes a chunk of its own

TIMESTAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rows are made of: a frozen part of the options, and the columns in the order asked for."""

    columns: tuple[str, ...]
    include_control: bool = False
    verify_crc: bool = True


def read_records(ranges: Iterable[LogRange], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows of the `records` level.

    Raises:
        DataUnreadable: damaged or missing data. OSError.
    """
    for piece in ranges:
        for chunk in _chunks(piece, wanted):
            try:
                yield _record_rows(piece, chunk, wanted)
            except (RemoteProtocolError, KafkaError) as error:
                raise DataUnreadable(
                    f"{piece.path}, offset {chunk[0].base_offset}: {error}"
                ) from None


def read_batches(ranges: Iterable[LogRange], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows of the `batches` level. Raises as `read_records`."""
    for piece in ranges:
        rows: list[tuple[int, BatchView]] = []
        for row in batches_of(piece, wanted):
            rows.append(row)
            if len(rows) >= CHUNK_RECORDS // 10:
                yield _batch_rows(piece, rows, wanted)
                rows = []
        if rows:
            yield _batch_rows(piece, rows, wanted)


def batches_of(piece: LogRange, wanted: Wanted) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of a range, those outside its offsets and unwanted control batches left out."""
    path = _path_of(piece)
    scan = scan_batches if wanted.verify_crc else _scan_unchecked
    position, next_offset = piece.start_position, piece.start_offset
    for position, batch in scan(path, piece.start_position, piece.end_position):
        next_offset = batch.next_offset
        if batch.base_offset >= piece.end_offset:
            return
        if next_offset > piece.start_offset and (wanted.include_control or not batch.is_control):
            yield position, batch
        position += batch.size
    if position < piece.end_position and next_offset < piece.end_offset:
        raise DataUnreadable(
            f"{piece.path}: damaged at position {position}, behind offset {next_offset - 1}: no valid batch begins "
            f"there"
        )


def _path_of(piece: LogRange) -> Path:
    """The planned file, also when retention has renamed it meanwhile."""
    for path in (piece.path, piece.path + DELETED_SUFFIX):
        try:
            if os.stat(path).st_ino == piece.inode:
                return Path(path)
        except FileNotFoundError:
            continue
    raise DataUnreadable(f"{piece.path} was deleted or compacted since it was planned; read again")


def _scan_unchecked(path: Path, start: int, end: int) -> Iterator[tuple[int, BatchView]]:
    file = REAL_FILES.open(path, write=False)
    for position, header in scan_headers(REAL_FILES, file, start, end):
        batch = read_batch(REAL_FILES, file, position, header.size)
        if batch is None:
            return
        yield position, opened(batch)


def _chunks(piece: LogRange, wanted: Wanted) -> Iterator[list[BatchView]]:
    """Batches in lists that hold about a chunk each."""
    chunk: list[BatchView] = []
    records = size = 0
    for _, batch in batches_of(piece, wanted):
        if (
            not batch.count
        ):  # compaction leaves such; they say "compressed" and have nothing to decompress
            continue
        chunk.append(batch)
        records += batch.count
        size += batch.size
        if records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield chunk
            chunk, records, size = [], 0, 0
    if chunk:
        yield chunk


# --- the columns of a record
# -------------------------------------------------------------------------------------------


def timestamps(
    milliseconds: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]],
) -> pa.Array:
    """Kafka's milliseconds as Spark's microseconds, in UTC."""
    return pa.array(np.asarray(milliseconds, np.int64) * 1000, pa.int64()).cast(TIMESTAMP)


def _timestamp_types(batches: Sequence[BatchView], records: Decoded) -> pa.Array:
    kinds = np.array([timestamp_type_id(b) for b in batches], np.int32)
    return pa.array(kinds[records.batch], pa.int32())


RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
_RECORD_COLUMNS: dict[str, Callable[[LogRange, Sequence[BatchView], Decoded], pa.Array]] = {
    "key": lambda _, __, r: gather(r.data, r.key),
    "value": lambda _, __, r: gather(r.data, r.value),
    "topic": lambda p, _, r: pa.repeat(p.topic, len(r)),
    "partition": lambda p, _, r: pa.repeat(pa.scalar(p.partition, pa.int32()), len(r)),
    "offset": lambda _, __, r: pa.array(r.offset, pa.int64()),
    "timestamp": lambda _, __, r: timestamps(r.timestamp_ms),
    "timestampType": lambda _, batches, r: _timestamp_types(batches, r),
    "headers": lambda _, __, r: gather_headers(r),
}


def _record_rows(piece: LogRange, chunk: Sequence[BatchView], wanted: Wanted) -> pa.RecordBatch:
    records = decode([as_v2(batch) for batch in chunk], RECORDS_BYTES_MAX)
    records = records.keep(
        (records.offset >= piece.start_offset) & (records.offset < piece.end_offset)
    )
    arrays = [_RECORD_COLUMNS[name](piece, chunk, records) for name in wanted.columns]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([RECORD_SCHEMA.field(name) for name in wanted.columns])
    )


# --- the columns of a batch
# --------------------------------------------------------------------------------------------

Located = tuple[int, BatchView]


def _control_type(batch: BatchView) -> str | None:
    """ABORT, COMMIT, LEADER_CHANGE …; None for data. A control batch is never compressed and holds such
    a record first.
    """
    if not batch.is_control or not batch.count:
        return None
    records = decode([batch], RECORDS_BYTES_MAX)
    return decode_control_key(gather(records.data, records.key)[0].as_py() or b"").name


def _uncompressed_bytes(batch: BatchView) -> int:
    return HEADER_BYTES + (len(records_bytes(as_v2(batch))) if batch.count else 0)


BATCH_COLUMNS: dict[str, tuple[pa.DataType, Callable[[LogRange, Located], object]]] = {
    "topic": (pa.string(), lambda p, _: p.topic),
    "partition": (pa.int32(), lambda p, _: p.partition),
    "broker_id": (pa.int32(), lambda p, _: p.node_id),
    "base_offset": (pa.int64(), lambda _, b: b[1].base_offset),
    "last_offset": (pa.int64(), lambda _, b: b[1].last_offset),
    "record_count": (pa.int32(), lambda _, b: b[1].count),
    "batch_bytes": (pa.int32(), lambda _, b: b[1].size),
    "compression": (pa.string(), lambda _, b: b[1].compression.name.lower()),
    "base_timestamp": (TIMESTAMP, lambda _, b: b[1].base_timestamp * 1000),
    "max_timestamp": (TIMESTAMP, lambda _, b: b[1].max_timestamp * 1000),
    "timestampType": (pa.int32(), lambda _, b: timestamp_type_id(b[1])),
    "leader_epoch": (pa.int32(), lambda _, b: b[1].leader_epoch),
    "producer_id": (pa.int64(), lambda _, b: b[1].producer_id),
    "producer_epoch": (pa.int32(), lambda _, b: b[1].producer_epoch),
    "base_sequence": (pa.int32(), lambda _, b: b[1].base_sequence),
    "is_transactional": (pa.bool_(), lambda _, b: b[1].is_transactional),
    "is_control": (pa.bool_(), lambda _, b: b[1].is_control),
    "control_type": (pa.string(), lambda _, b: _control_type(b[1])),
    "delete_horizon_ms": (pa.int64(), lambda _, b: b[1].delete_horizon_ms),
    "crc": (pa.int64(), lambda _, b: b[1].crc),
    "crc_valid": (pa.bool_(), lambda _, b: has_valid_crc(b[1])),
    "file": (pa.string(), lambda p, _: p.path),
    "position": (pa.int64(), lambda _, b: b[0]),
    # Not in the default schema, for it costs decompression; a schema of the user's may name it.
    "uncompressed_bytes": (pa.int64(), lambda _, b: _uncompressed_bytes(b[1])),
}
BATCH_SCHEMA = pa.schema([(name, kind) for name, (kind, _) in BATCH_COLUMNS.items()])


def _batch_rows(piece: LogRange, rows: Sequence[Located], wanted: Wanted) -> pa.RecordBatch:
    kept = [row for row in rows if row[1].next_offset <= piece.end_offset]
    try:
        arrays = [
            pa.array([BATCH_COLUMNS[name][1](piece, row) for row in kept], BATCH_COLUMNS[name][0])
            for name in wanted.columns
        ]
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{piece.path}: {error}") from None
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([BATCH_SCHEMA.field(name) for name in wanted.columns])
    )
