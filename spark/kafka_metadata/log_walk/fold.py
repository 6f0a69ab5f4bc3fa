"""Tables that are one walk through the log: a fold takes the records that matter to it and gives rows.

State is that of `trimaran.quorum.metadata`'s deltas, the code that controllers and brokers replay with.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from trimaran.quorum.metadata.image import UnknownRecords
from trimaran.spark.data_source.columns import LONG, Column, rows_to_arrow, schema_of, to_array
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, Walk, WalkStep
from trimaran.spark.kafka_metadata.options import AS_OF_OPTIONS, BOUND_OPTIONS, MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Read, Table, without_collector
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

CHUNK_ROWS = 10_000
OFFSET = "offset"  # the column of a table of events: the record that a row is of
UNKNOWN = Column(
    "unknown_records",
    LONG,
    "left-out records of a later Kafka, from the snapshot up to this row: the row lacks what they change",
)
Row = tuple[Any, ...]
Span = tuple[
    int, int | None
]  # the first offset of an interval, and the one that ended it; None: it goes on


class Fold:
    """Takes records, gives rows. One fold makes one pass.

    RECORDS: the types of records that it takes; RAW: those of them that it takes as bytes; CONTROL: control records,
    too.
    `rows` are those finished, in the order of the table's columns. `tells_snapshot`: what a snapshot says is told in
    rows of its own (not where another task has told how it came to be).
    """

    RECORDS: ClassVar[Sequence[type[Message]]] = ()
    RAW: ClassVar[Sequence[type[Message]]] = ()
    CONTROL: ClassVar[bool] = False

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tells_snapshot = True

    def replay(self, step: WalkStep) -> None:
        """Raises RemoteProtocolError: the record changes what is not there."""
        raise NotImplementedError

    def finish(self, last: Moment) -> None:
        """The log ends here."""
        raise NotImplementedError


class EventFold(Fold):
    """A fold whose rows are events. Those of one batch are told together, when the batch has been seen whole."""

    def __init__(self) -> None:
        super().__init__()
        self._group: int | None = None

    def replay(self, step: WalkStep) -> None:
        if step.group != self._group:
            self.settle()
            self._group = step.group
        self.take(step)

    def take(self, step: WalkStep) -> None:
        """As `replay`."""
        raise NotImplementedError

    def settle(self) -> None:
        """A batch is whole: what waited for its end can be told."""

    def finish(self, last: Moment) -> None:  # noqa: ARG002 - events have no end
        self.settle()


def folded(
    name: str,
    doc: str,
    columns: Sequence[Column],
    make: type[Fold],
    *,
    plan: str = "events",
    options: Sequence[str] = (),
    apart: Callable[[Sequence[Any]], Any] | None = None,
    span: Callable[[Row], Span] | None = None,
) -> Table:
    """A table read by a fold; `apart` as of `rows_to_arrow`. Rows are events, or intervals that `span` tells of."""
    common = frozenset((*AS_OF_OPTIONS, *BOUND_OPTIONS, *options))
    read = _reader(name, tuple(columns), make, apart, span)
    return Table(name, doc, (*columns, UNKNOWN), read, plan, common)


def overlaps(span: Span, start: int) -> bool:
    """Whether an interval lasted beyond `start`, or began there."""
    since, until = span
    return until is None or until > start or since >= start


def _reader(
    table: str,
    columns: tuple[Column, ...],
    make: type[Fold],
    apart: Callable[[Sequence[Any]], Any] | None,
    span: Callable[[Row], Span] | None,
) -> Read:
    names = [column.name for column in columns]
    topic_at = names.index("topic") if "topic" in names else None
    offset_at = -1 if span else names.index(OFFSET)

    def is_told(row: Row, start: int) -> bool:
        return overlaps(span(row), start) if span else row[offset_at] >= start

    def end_of(row: Row) -> int | None:
        return span(row)[1] if span else row[offset_at]

    def read(
        task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
    ) -> Iterator[pa.RecordBatch]:
        topics = options.topics
        unknown: list[UnknownRecord] = []  # those that were read so far

        def made(rows: list[Row]) -> pa.RecordBatch:
            if task.told_from:
                rows = [row for row in rows if is_told(row, task.told_from)]
            if topics and topic_at is not None:
                rows = [row for row in rows if row[topic_at] in topics]
            known = [name for name in wanted if name != UNKNOWN.name]
            batch = rows_to_arrow(rows, columns, known, apart)
            if len(known) == len(wanted):
                return batch
            offsets = [record.offset for record in unknown]
            counts = [_up_to(offsets, end_of(row)) for row in rows] if unknown else [0] * len(rows)
            arrays = dict(zip(known, batch.columns, strict=True))
            arrays[UNKNOWN.name] = to_array(counts, UNKNOWN.kind)
            schema = schema_of([every[name] for name in wanted])
            return pa.RecordBatch.from_arrays([arrays[name] for name in wanted], schema=schema)

        every = {column.name: column for column in (*columns, UNKNOWN)}
        fold = make()
        fold.tells_snapshot = task.tells_snapshot
        with without_collector():
            for _ in _replayed(fold, task, options, unknown):
                rows, fold.rows = fold.rows, []
                yield made(rows)
            yield made(fold.rows)
        if unknown:  # a table without rows has no other place for it
            left_out = UnknownRecords().plus(len(unknown), unknown).text
            log.warning("%s may be stale: left out %s", table, left_out)

    return read


def _up_to(offsets: Sequence[int], end: int | None) -> int:
    """How many of these ascending offsets are not above the end; None: all."""
    return len(offsets) if end is None else bisect_right(offsets, end)


def _replayed(
    fold: Fold, task: MetadataTask, options: MetadataOptions, unknown: list[UnknownRecord]
) -> Iterator[None]:
    """Yields whenever there are rows enough to be given away; `unknown` grows by the records of a later Kafka."""
    keys = frozenset(record.KEY for record in fold.RECORDS)
    raw = frozenset(record.KEY for record in fold.RAW)
    until = options.as_of_timestamp
    walk = Walk(task, keys, raw=raw, control=fold.CONTROL, until_ms=until)
    step = None
    try:
        for step in walk:
            if type(step.message) is UnknownRecord:
                unknown.append(step.message._replace(offset=step.moment.offset))
                continue
            fold.replay(step)
            if len(fold.rows) >= CHUNK_ROWS:
                yield
    except RemoteProtocolError as error:
        where = "" if step is None else f" at offset {step.moment.offset}"
        raise DataUnreadable(f"the metadata log of node {task.node_id}{where}: {error}") from None
    fold.finish(walk.last)
