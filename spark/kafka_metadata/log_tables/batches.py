"""`batches`: the batches of metadata logs, control batches too, one row each."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trimaran.log.batches.batch import has_valid_crc
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table

CHUNK_ROWS = 10_000

COLUMNS = (
    Column("node_id", INT, "whose log it is", "meta.properties"),
    Column("file", STRING, "the segment"),
    Column("position", LONG, "where the batch begins in it", unit="bytes"),
    Column("base_offset", LONG, "its first offset", "batch header"),
    Column("last_offset", LONG, "its last offset", "batch header"),
    Column("epoch", INT, "epoch of the leader that wrote it", "batch header"),
    Column("record_count", INT, "records in it", "batch header"),
    Column("batch_bytes", INT, "its size, header included", "batch header", "bytes"),
    Column("base_timestamp", TIMESTAMP, "of its first record", "batch header", "UTC"),
    Column("max_timestamp", TIMESTAMP, "the latest of its records", "batch header", "UTC"),
    Column("control", BOOL, "it holds control records", "batch header"),
    Column("committed", BOOL, "a majority of the voters has it; null: nobody can tell"),
    Column("crc", LONG, "its CRC-32C as written", "batch header"),
    Column("crc_valid", BOOL, "whether the bytes have that CRC (see verifyCrc)"),
)


def read(
    task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Raises DataUnreadable: damage, unless verifyCrc is false."""
    rows = []
    for piece in task.ranges:
        for position, batch in batches_in(piece, verify_crc=options.verify_crc):
            rows.append(
                (
                    task.node_id,
                    piece.name,
                    position,
                    batch.base_offset,
                    batch.last_offset,
                    batch.leader_epoch,
                    batch.count,
                    batch.size,
                    batch.base_timestamp,
                    batch.max_timestamp,
                    batch.is_control,
                    task.is_committed(batch.last_offset),
                    batch.crc,
                    has_valid_crc(batch) if "crc_valid" in wanted else None,
                )
            )
            if len(rows) >= CHUNK_ROWS:
                yield rows_to_arrow(rows, COLUMNS, wanted)
                rows = []
    yield rows_to_arrow(rows, COLUMNS, wanted)


TABLE = Table(
    "batches",
    "The batches of metadata logs, one row each.",
    COLUMNS,
    read,
    "node",
    frozenset(("nodes", "includeUncommitted", "verifyCrc")),
)
