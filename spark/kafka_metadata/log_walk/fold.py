"""Tables that are built by one walk through the log: a fold receives the relevant records and makes rows.

The state is that of the deltas of `trimaran.quorum.metadata`, with which controllers and brokers replay records.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from trimaran.quorum.metadata.image import UnknownRecords
from trimaran.spark.data_source.columns import (
    INT,
    LONG,
    TIMESTAMP,
    Column,
    field,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, Walk, WalkStep
from trimaran.spark.kafka_metadata.options import AS_OF_OPTIONS, BOUND_OPTIONS, MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Read, Table, without_collector
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Offset
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

CHUNK_ROWS = 10_000
UNKNOWN = Column(
    "unknown_records",
    LONG,
    lambda _: 0,
    "omitted records of a later Kafka, and malformed ones, up to this row: the row lacks their changes",
)


# fmt: off
def moment_columns(offset: str = "the record", source: str = "") -> tuple[Column, ...]:
    """Returns the columns of a row's `moment`, with which a table of events begins; `offset` documents the
    first one.
    """
    return (
        Column("offset", LONG, field("moment.offset"), offset, source),
        Column("ts", TIMESTAMP, field("moment.timestamp_ms"), "when the controller wrote it", unit="UTC"),
        Column("controller_epoch", INT, field("moment.epoch"), "epoch of the controller that wrote it"),
    )


# fmt: on


def value_of(columns: Sequence[Column], name: str) -> Callable[[Any], Any] | None:
    """Returns the function of the column with this name, None if there is no such column."""
    return next((column.value for column in columns if column.name == name), None)


class Fold:
    """Makes rows from records. A fold is used for one pass.

    RECORDS: the types of records that it takes; RAW: the types among them that it takes as bytes; CONTROL: whether it
    takes control records, too. `rows` are the finished rows, as the columns of the table take them. `unknown`: the
    records so far that were not understood. `shows_snapshot`: a snapshot makes rows, too (false if the rows of another
    task lead up to it).
    """

    RECORDS: ClassVar[Sequence[type[Message]]] = ()
    RAW: ClassVar[Sequence[type[Message]]] = ()
    CONTROL: ClassVar[bool] = False

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.unknown: list[UnknownRecord] = []
        self.shows_snapshot = True

    def replay(self, step: WalkStep) -> None:
        """Replays a record. Raises RemoteProtocolError if it changes something that does not exist."""
        raise NotImplementedError

    def finish(self, last: Moment) -> None:
        """Ends the walk at the end of the log."""
        raise NotImplementedError


class EventFold(Fold):
    """A fold whose rows are events. The rows of a batch are made together, once the whole batch is read."""

    def __init__(self) -> None:
        super().__init__()
        self._group: int | None = None

    def replay(self, step: WalkStep) -> None:
        if step.group != self._group:
            self.settle()
            self._group = step.group
        self.take(step)

    def take(self, step: WalkStep) -> None:
        """Takes the record of an event; raises as `replay` does."""
        raise NotImplementedError

    def settle(self) -> None:
        """Completes the rows that waited for the end of a batch."""

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
) -> Table:
    """Returns a table whose rows a fold makes.

    Its rows are intervals if it has a column `to_offset`, otherwise events of the record at `offset`.
    """
    common = frozenset((*AS_OF_OPTIONS, *BOUND_OPTIONS, *options))
    return Table(name, doc, (*columns, UNKNOWN), _reader(name, columns, make), plan, common)


def overlaps(since: int, until: int | None, start: Offset) -> bool:
    """True if an interval of offsets lasted beyond `start`, or began there; without `until` it still lasts."""
    return until is None or until > start or since >= start


def _reader(table: str, columns: Sequence[Column], make: type[Fold]) -> Read:
    topic_of = value_of(columns, "topic")
    end_of = value_of(columns, "to_offset") or value_of(columns, "offset")
    assert end_of is not None
    since_of = value_of(columns, "from_offset") or end_of

    def read(
        task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
    ) -> Iterator[pa.RecordBatch]:
        fold = make()

        def made(rows: list[Any]) -> pa.RecordBatch:
            if start := task.shown_from:
                rows = [row for row in rows if overlaps(since_of(row), end_of(row), start)]
            if options.topics and topic_of is not None:
                rows = [row for row in rows if topic_of(row) in options.topics]
            offsets = [record.offset for record in fold.unknown]
            counted = UNKNOWN._replace(value=lambda row: _up_to(offsets, end_of(row)))
            return rows_to_arrow(rows, (*columns, counted if offsets else UNKNOWN), wanted)

        fold.shows_snapshot = task.shows_snapshot
        with without_collector():
            for _ in _replayed(fold, task, options):
                rows, fold.rows = fold.rows, []
                yield made(rows)
            yield made(fold.rows)
        report_unknown(table, UnknownRecords().plus(len(fold.unknown), fold.unknown).text)

    return read


def report_unknown(table: str, records: str) -> None:
    """Logs a warning if records were not understood, since a table without rows does not show this."""
    if records:
        log.warning("%s may be stale: left out %s", table, records)


def _up_to(offsets: Sequence[Offset], end: Offset | None) -> int:
    """Returns the number of these ascending offsets that are at most `end`; None means all."""
    return len(offsets) if end is None else bisect_right(offsets, end)


def _replayed(fold: Fold, task: MetadataTask, options: MetadataOptions) -> Iterator[None]:
    """Yields whenever there are enough rows for a batch."""
    keys = frozenset(record.KEY for record in fold.RECORDS)
    raw = frozenset(record.KEY for record in fold.RAW)
    until = options.as_of_timestamp
    walk = Walk(task, keys, raw=raw, control=fold.CONTROL, until_ms=until)
    step = None
    try:
        for step in walk:
            if type(step.message) is UnknownRecord:
                fold.unknown.append(step.message._replace(offset=step.moment.offset))
                continue
            fold.replay(step)
            if len(fold.rows) >= CHUNK_ROWS:
                yield
    except RemoteProtocolError as error:
        where = "" if step is None else f" at offset {step.moment.offset}"
        raise DataUnreadable(f"the metadata log of node {task.node_id}{where}: {error}") from None
    fold.finish(walk.last)
