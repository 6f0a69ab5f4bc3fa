"""The pages that are generated: the columns of every view, and the options of Spark's connector and Kafka's clients.

python -m trimaran.spark.documentation > docs/spark_tables.md
python -m trimaran.spark.documentation options > docs/spark_options.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from trimaran.spark.data_source.columns import Column
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS
from trimaran.spark.kafka_log.decoded import DECODED
from trimaran.spark.kafka_log.records import RECORD_COLUMNS
from trimaran.spark.kafka_log.segments import SEGMENT_COLUMNS
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_options import (
    CONSUMER_PROPERTIES,
    PRODUCER_PROPERTIES,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    KafkaOption,
)
from trimaran.spark.sources import PREFIXED

HEAD = """# Tables of the logs

This page is generated; edit the `…COLUMNS` in `spark/`, which it shows, then run
`python -m trimaran.spark.documentation > docs/spark_tables.md`.
Times are in UTC. A column is null if its text says so, or if the record has no such field.
"""

OPTIONS_HEAD = """# Options of Spark's connector and Kafka's clients

This page is generated; edit `spark/kafka_options.py`, then run
`python -m trimaran.spark.documentation options > docs/spark_options.md`.
The options that only `kafka_log` has are in [spark.md](spark.md#kafka_log).

A job that moves from Spark's Kafka connector may carry each option of this page. Letter case does not count.
An option that acts does what it does there. An option without effect causes one warning for each query.
An option that is refused ends the query; the table says why, and what to use.
Any other name is refused as unknown.
An option of writing has no effect on reading, and the other way round.
"""
OPTION_SECTIONS = (
    ("Options of the source", SOURCE_OPTIONS),
    ("Properties of consumers", CONSUMER_PROPERTIES),
    ("Options of the sink", SINK_OPTIONS),
    ("Properties of producers", PRODUCER_PROPERTIES),
)


class View(NamedTuple):
    """A view: its name, the format and options that read it, the meaning of a row, and its columns."""

    name: str
    format: str
    option: str
    doc: str
    columns: Sequence[Column]


LEVELS = {
    "records": (
        "Every record of the topics, in the columns of Spark's Kafka source.",
        RECORD_COLUMNS,
    ),
    "batches": (
        "Every batch of the topics: offsets, sizes, codec, producer, epoch, CRC.",
        BATCH_COLUMNS,
    ),
    "segments": ("Every segment file of every replica.", SEGMENT_COLUMNS),
}


def shown_views() -> Iterator[View]:
    """Returns all views: those of the metadata log, then those of the data logs."""
    for table in TABLES.values():
        name = f"metadata_{table.name}" if table.name in PREFIXED else table.name
        yield View(name, "kafka_metadata", f"table={table.name}", table.doc, table.columns)
    for level, (doc, columns) in LEVELS.items():
        yield View(level, "kafka_log", f"level={level}", doc, tuple(columns.values()))
    for decoded in DECODED.values():
        option = f"level={decoded.name}"
        yield View(decoded.name, "kafka_log", option, decoded.doc, decoded.columns)


def view_docs() -> list[dict[str, str]]:
    """Returns each view with the meaning of a row and its columns."""
    return [
        {"view": v.name, "rows": v.doc, "columns": ", ".join(c.name for c in v.columns)}
        for v in shown_views()
    ]


def page() -> str:
    """Returns the page as Markdown."""
    return HEAD + "".join(_section(view) for view in shown_views())


def _section(view: View) -> str:
    lines = [f"\n## {view.name}\n", f"{view.doc}\n", f"`{view.format}`, `{view.option}`\n"]
    if any(column.doc for column in view.columns):
        lines.append("| column | type | unit | source | meaning |\n|---|---|---|---|---|")
        lines += [
            f"| `{c.name}` | {_type(c.kind)} | {c.unit} | {c.source} | {c.doc} |"
            for c in view.columns
        ]
    else:
        lines.append("| column | type |\n|---|---|")
        lines += [f"| `{c.name}` | {_type(c.kind)} |" for c in view.columns]
    return "\n".join(lines) + "\n"


_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}


def _type(kind: pa.DataType) -> str:
    """Returns the name of the type in Spark."""
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_type(field.type)}' for field in kind)}>"
    return "timestamp" if pa.types.is_timestamp(kind) else _TYPES.get(kind, str(kind))


def options_page() -> str:
    """Returns the page of options as Markdown: those that act, then the refused ones, then those without effect."""
    return OPTIONS_HEAD + "".join(_options_section(*section) for section in OPTION_SECTIONS)


def _options_section(title: str, options: Sequence[KafkaOption]) -> str:
    order = ("acts", "refused", "no effect")
    rows = sorted(options, key=lambda o: (order.index(o.effect), o.name.lower()))
    lines = [f"\n## {title}\n", "| option | here | |\n|---|---|---|"]
    lines += [f"| `{o.name}` | {o.effect} | {o.why} |" for o in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(options_page() if "options" in sys.argv[1:] else page())
