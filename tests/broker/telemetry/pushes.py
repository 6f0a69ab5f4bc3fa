"""Metrics that clients push, in their own format."""

from __future__ import annotations

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

DELTA, CUMULATIVE = 1, 2


def metrics_data(
    *, gauges=(), sums=(), temporality=DELTA, monotonic=True, resource=None
) -> MetricsData:
    """Returns metrics data; `gauges` and `sums` are (name, value, {label: text})."""
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    for key, text in (resource or {}).items():
        of_resource.resource.attributes.add(key=key).value.string_value = text
    metrics = of_resource.scope_metrics.add().metrics
    for name, value, labels in gauges:
        point = metrics.add(name=name).gauge.data_points.add(as_double=value)
        _label(point, labels)
    for name, value, labels in sums:
        metric = metrics.add(name=name)
        metric.sum.aggregation_temporality = temporality
        metric.sum.is_monotonic = monotonic
        _label(metric.sum.data_points.add(as_int=value), labels)
    return data


def pushed(**parts) -> bytes:
    return metrics_data(**parts).SerializeToString()


def _label(point, labels):
    for key, text in labels.items():
        point.attributes.add(key=key).value.string_value = text
