"""Metric families, made shorter than `prometheus_client` makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
"""None: the loop may turn here. What comes of the same state must come before."""

Rows = Iterable[tuple[Sequence[str], float]]
"""Label values, and the value."""

# The quantiles of Kafka's histograms, except p75 and p98.
QUANTILES = (0.5, 0.95, 0.99, 0.999)


def gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(name, doc, value=value)


def gauges(name: str, doc: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _with_rows(GaugeMetricFamily(name, doc, labels=labels), rows)


def counter(name: str, doc: str, value: float) -> Metric:
    """`name` without `_total`, which is added."""
    return CounterMetricFamily(name, doc, value=value)


def counters(name: str, doc: str, labels: Sequence[str], rows: Rows) -> Metric:
    """`name` without `_total`, which is added."""
    return _with_rows(CounterMetricFamily(name, doc, labels=labels), rows)


def _with_rows(family: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for values, value in rows:
        family.add_metric(values, value)
    return family


def times(
    name: str,
    doc: str,
    rows: Iterable[tuple[Mapping[str, str], TimeSummary]],
    *,
    unit: float = 1.0,
) -> Metric:
    """Quantiles of the last one to two minutes, count and sum of all time; `unit` is 1000 for milliseconds."""
    family = SummaryMetricFamily(name, doc)
    for labels, summary in rows:
        values = summary.quantiles(QUANTILES)
        for quantile, seconds in zip(QUANTILES, values, strict=True):
            family.add_sample(name, {**labels, "quantile": str(quantile)}, seconds * unit)
        family.add_sample(f"{name}_count", dict(labels), summary.count)
        family.add_sample(f"{name}_sum", dict(labels), summary.seconds * unit)
    return family


def histogram(name: str, doc: str, value: CumulativeHistogram) -> Metric:
    return HistogramMetricFamily(name, doc, buckets=value.buckets(), sum_value=value.seconds)
