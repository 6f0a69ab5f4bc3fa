"""A table: its columns, its reader, and the options that affect it."""

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
    """A table. `read` yields its rows for a task; `options` are those that affect it besides the common ones.

    `plan` is the way to divide the log into tasks: `node` (by size, for each requested node), `whole` (one walk through
    one log), `events` (one walk, divided at snapshots), `batches` (as `node`, including control batches).
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
    """Disables the cyclic garbage collector, which would take half of the time, because it would traverse the many
    tuples of rows repeatedly. Readers create no cycles, and run in Spark workers, which end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
