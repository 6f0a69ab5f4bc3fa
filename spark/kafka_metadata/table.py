"""A table: its columns, its reader, and the options that act on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from trimaran.spark.data_source.columns import Column, schema_of

if TYPE_CHECKING:
    from trimaran.spark.kafka_metadata.options import MetadataOptions
    from trimaran.spark.kafka_metadata.plan import MetadataTask

Read = Callable[["MetadataTask", tuple[str, ...], "MetadataOptions"], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `read` makes its rows from a task; `options` are those that act on it beside the common ones.

    `plan` tells how the log is cut into tasks: `node` (by size, of each node asked for), `whole` (one walk through one
    log), `events` (one walk, cut at snapshots), `batches` (as `node`, of control batches too).
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    read: Read
    plan: str
    options: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.columns)


@contextmanager
def without_collector() -> Iterator[None]:
    """Many rows are many tuples, which the collector of cycles would walk again and again: half of the time.

    For readers, which run in workers of Spark, end, and make no cycles.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
