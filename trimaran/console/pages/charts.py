"""Throughput and latencies during the last minutes, from the metrics of the nodes."""

from __future__ import annotations

from typing import Any

from trimaran.console.lines import Chart, chart, summed, worst
from trimaran.console.page import Page, PageRequest
from trimaran.console.samples import SERIES
from trimaran.node.runtime.clock import now_ms

MINUTES = ("15", "5", "60")
SPARKS = ("bytes-in", "bytes-out", "messages-in", "produce-time", "commit-time")
SPARK_MINUTES = 15
# the number of lines that a person can distinguish; for more nodes the sum or the maximum is drawn
NODES_MAX = 12


def view(question: PageRequest) -> dict[str, Any]:
    minutes = int(question.choice("minutes", MINUTES))
    samples = question.cluster.samples
    has_sources = samples.note_page()
    since = now_ms() - minutes * 60_000
    found = [_of_nodes(question, series, since) for series in SERIES] if has_sources else []
    return {
        "minutes": minutes,
        "choices": sorted(map(int, MINUTES)),
        "has_sources": has_sources,
        "silent": samples.silent,
        "charts": [each_chart for each_chart in found if each_chart is not None],
    }


def sparks(question: PageRequest) -> list[Chart]:
    """Returns a line for each series over the whole cluster; series that no node reports are omitted."""
    samples = question.cluster.samples
    if not samples.note_page():
        return []
    since = now_ms() - SPARK_MINUTES * 60_000
    found = [_of_cluster(question, series, since) for series in SERIES if series.name in SPARKS]
    return [each_chart for each_chart in found if each_chart is not None]


def _of_cluster(question: PageRequest, series: Any, since: int) -> Chart | None:
    told = question.cluster.samples.of(series, since)
    return chart(series.title, series.unit, {"all": (summed if series.is_total else worst)(told)})


def _of_nodes(question: PageRequest, series: Any, since: int) -> Chart | None:
    told = question.cluster.samples.of(series, since)
    if len(told) > NODES_MAX:
        return _of_cluster(question, series, since)
    return chart(series.title, series.unit, told)


PAGE = Page("/charts", "Charts", "charts.html", view)
