"""Metrics as lines: a table for each subject declares its metrics, and a scrape makes families of them.

A new metric is a line of its subject's table, such as `REPLICA_METRICS` of `trimaran.metrics.replicas`. The page
docs/metric_names.md is written from the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from trimaran.wire.transport.metrics.cumulative_histogram import CumulativeHistogram
from trimaran.wire.transport.metrics.time_histogram import TimeSummary

Families = Iterator[Metric | None]
"""None: the loop may turn here. Families of the same state must precede it."""

Rows = Iterable[tuple[Sequence[str], float]]
"""Values of the labels, in their order, and the value. No values of labels: a sample without labels."""

TimeRows = Iterable[tuple[Sequence[str], TimeSummary]]

# The quantiles of Kafka's histograms, except p75 and p98.
QUANTILES = (0.5, 0.95, 0.99, 0.999)
# The number of samples that are made in one turn of the loop, which takes about a millisecond.
_PER_TURN = 500

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class MetricLine(Generic[S]):
    """One metric.

    Args:
        name: without `_total`, which counters get.
        text: for `# HELP`, and for the page.
        read: returns the value from the subject's data; None if the metric is absent now. With labels it returns rows.
        bound: the most values that the labels have together, such as "topics on this broker".
        unit: 1000 to show seconds of a summary as milliseconds.
    """

    kind: Literal["gauge", "counter", "summary", "histogram"]
    name: str
    text: str
    read: Callable[[S], Any]
    labels: tuple[str, ...] = ()
    bound: str = ""
    unit: float = 1.0

    def __post_init__(self) -> None:
        if bool(self.labels) != bool(self.bound):
            raise ValueError(f"{self.name}: labels need a bound, and a bound needs labels")

    def family(self, state: S) -> Families:
        found = self.read(state)
        if found is None:
            return
        if self.kind == "histogram":
            buckets, seconds = [*found.buckets().items()], found.seconds
            yield HistogramMetricFamily(self.name, self.text, buckets=buckets, sum_value=seconds)
        elif self.kind == "summary":
            yield self._summary(found if self.labels else [((), found)])
        else:
            made = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
            family = made(self.name, self.text, labels=self.labels)
            for number, row in enumerate(found if self.labels else [((), found)], 1):
                family.add_metric(*row)
                if number % _PER_TURN == 0:
                    yield None
            yield family

    def _summary(self, rows: TimeRows) -> Metric:
        """Returns quantiles of the last one to two minutes, count and sum of all time."""
        family = SummaryMetricFamily(self.name, self.text)
        for values, times in rows:
            labels = dict(zip(self.labels, values, strict=True))
            quantiles = times.quantiles(QUANTILES)
            for quantile, seconds in zip(QUANTILES, quantiles, strict=True):
                quantile_labels = {**labels, "quantile": str(quantile)}
                family.add_sample(self.name, quantile_labels, seconds * self.unit)
            family.add_sample(f"{self.name}_count", labels, times.count)
            family.add_sample(f"{self.name}_sum", labels, times.seconds * self.unit)
        return family


Table: TypeAlias = tuple[MetricLine[S], ...]


def families(table: Table[S], state: S) -> Families:
    """Yields the families of a table, in its order."""
    for line in table:
        yield from line.family(state)


def gauge(name: str, text: str, read: Callable[[S], float | None]) -> MetricLine[S]:
    return MetricLine("gauge", name, text, read)


def gauges(
    name: str, text: str, labels: tuple[str, ...], bound: str, read: Callable[[S], Rows]
) -> MetricLine[S]:
    return MetricLine("gauge", name, text, read, labels, bound)


def counter(name: str, text: str, read: Callable[[S], float | None]) -> MetricLine[S]:
    return MetricLine("counter", name, text, read)


def counters(
    name: str, text: str, labels: tuple[str, ...], bound: str, read: Callable[[S], Rows]
) -> MetricLine[S]:
    return MetricLine("counter", name, text, read, labels, bound)


def times(
    name: str, text: str, read: Callable[[S], TimeSummary], *, unit: float = 1.0
) -> MetricLine[S]:
    return MetricLine("summary", name, text, read, unit=unit)


def times_by(
    name: str,
    text: str,
    labels: tuple[str, ...],
    bound: str,
    read: Callable[[S], TimeRows],
    *,
    unit: float = 1.0,
) -> MetricLine[S]:
    return MetricLine("summary", name, text, read, labels, bound, unit)


def histogram(name: str, text: str, read: Callable[[S], CumulativeHistogram]) -> MetricLine[S]:
    return MetricLine("histogram", name, text, read)
