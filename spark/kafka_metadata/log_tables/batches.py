"""`batches`: the batches of metadata logs, including control batches, one row each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    field,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.origins.origin import Range

CHUNK_ROWS = 10_000

# fmt: off
COLUMNS = (
    Column("node_id", INT, field("task.node_id"), "the node of the log", "meta.properties"),
    Column("file", STRING, field("piece.name"), "the segment"),
    Column("position", LONG, field("position"), "where the batch begins in it", unit="bytes"),
    Column("base_offset", LONG, field("batch.base_offset"), "its first offset", "batch header"),
    Column("last_offset", LONG, field("batch.last_offset"), "its last offset", "batch header"),
    Column("epoch", INT, field("batch.leader_epoch"), "epoch of the leader that wrote it", "batch header"),
    Column("record_count", INT, field("batch.count"), "records in it", "batch header"),
    Column("batch_bytes", INT, field("batch.size"), "its size, header included", "batch header", "bytes"),
    Column("base_timestamp", TIMESTAMP, field("batch.base_timestamp"), "of its first record", "batch header", "UTC"),
    Column("max_timestamp", TIMESTAMP, field("batch.max_timestamp"), "the latest of its records", "batch header",
           "UTC"),
    Column("control", BOOL, field("batch.is_control"), "it holds control records", "batch header"),
    Column("committed", BOOL, lambda row: row.task.is_committed(row.batch.last_offset),
           "a majority of the voters has it; null: unknown"),
    Column("crc", LONG, field("batch.crc"), "its CRC-32C as written", "batch header"),
    Column("crc_valid", BOOL, lambda row: has_valid_crc(row.batch), "whether the bytes have that CRC (see verifyCrc)"),
)
# fmt: on


class MetadataBatchRow(NamedTuple):
    """A row: a batch and its place."""

    task: MetadataTask
    piece: Range
    position: int
    batch: BatchView


def read(
    task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Yields the rows. Raises DataUnreadable for damage, unless verifyCrc is false."""
    rows: list[MetadataBatchRow] = []
    for piece in task.ranges:
        for position, batch in batches_in(piece, verify_crc=options.verify_crc):
            rows.append(MetadataBatchRow(task, piece, position, batch))
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
