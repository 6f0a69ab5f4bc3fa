"""All metrics are rows of tables, from which docs/metric_names.md is written (`REWRITE_TRANSCRIPTS=1`)."""

from pathlib import Path

import pytest

from tests import datadriven
from trimaran.metrics.families import MetricLine, counter, families, gauge, gauges
from trimaran.metrics.registry import SUBJECTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metric_names.md"
HEAD = """# Names of metrics

Each metric of a node is a line of a table in `trimaran/metrics/`; see [metrics.md](metrics.md).
Counters have `_total` behind their names. The last column bounds how many values the labels have together.
Not listed: `process_…`, which every Prometheus client has, and `kafka_clients_…`, which clients push.
This page is written from the tables: `REWRITE_TRANSCRIPTS=1 pytest tests/trimaran/metrics/test_metric_names.py`.
"""
LINES = [line for tables in SUBJECTS.values() for table in tables for line in table]


def page():
    for subject, tables in SUBJECTS.items():
        yield f"\n## {subject}\n\n| metric | kind | text | labels | at most |\n|---|---|---|---|---|"
        for line in (line for table in tables for line in table):
            labels = ", ".join(f"`{label}`" for label in line.labels) or "–"
            cells = f"`{line.name}`", line.kind, line.text, labels, line.bound or "–"
            yield f"| {' | '.join(cells)} |"


def test_page_lists_all_metrics():
    text = HEAD + "\n".join(page()) + "\n"
    if datadriven.REWRITE:
        PAGE.write_text(text)
    assert PAGE.read_text() == text


def test_names_are_unique():
    assert len({line.name for line in LINES}) == len(LINES) > 80


@pytest.mark.parametrize(("labels", "bound"), [(("topic",), ""), ((), "topics")])
def test_labels_and_bound_come_together(labels, bound):
    with pytest.raises(ValueError, match="labels need a bound"):
        MetricLine("gauge", "m", "M.", len, labels, bound)


def test_metric_without_value_is_absent():
    table = (gauge("a", "A.", lambda _: None), counter("b", "B.", lambda state: state))
    assert [family.name for family in families(table, 3)] == ["b"]


def test_many_samples_are_added_in_turns():
    rows = [((str(number),), number) for number in range(1_200)]
    table = (gauges("a", "A.", ("n",), "1,200", lambda _: rows),)
    first, second, family = families(table, None)
    assert first is second is None
    assert [(sample.labels["n"], sample.value) for sample in family.samples] == [
        (name, number) for (name,), number in rows
    ]
