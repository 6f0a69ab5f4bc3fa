"""Decodes the metrics that a client has pushed into numbers: OpenTelemetry's MetricsData of format v1, decoded by the
OpenTelemetry library.

The library is an extra (`trimaran[telemetry]`), imported at the first push. Histograms and summaries, which no Kafka
client pushes, are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.log.codecs.compression import Compression, decompress
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from google.protobuf import message as protobuf
    from opentelemetry.proto.metrics.v1 import metrics_pb2
else:
    protobuf = imported_later("google.protobuf.message")
    metrics_pb2 = imported_later("opentelemetry.proto.metrics.v1.metrics_pb2")

# Kafka clients do not use longer names and labels, or more labels.
_CHARACTERS_MAX = 255
_LABELS_MAX = 16


class Point(NamedTuple):
    """A number. `is_sum`: a sum that only increases; `is_delta`: the increase since the last push."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_sum: bool
    is_delta: bool


def is_available() -> bool:
    """Whether the library is installed."""
    try:
        return find_spec("opentelemetry.proto.metrics.v1") is not None
    except ModuleNotFoundError:
        return False


def points_of(data: bytes, compression: int, bytes_max: int) -> list[Point]:
    """Returns all points of a push; called in a thread. `bytes_max` is the bound of the decompressed data, in bytes, as
    in Kafka 4.4 (`ClientTelemetryUtils.decompress`); the library's objects briefly take about ten times as much.

    Raises:
        RemoteProtocolError: the data is not compressed MetricsData, or expands to more than `bytes_max`.
    """
    kind = Compression(compression)
    if kind is not Compression.NONE:
        data = bytes(decompress(kind, data, bytes_max))
    try:
        message = metrics_pb2.MetricsData.FromString(data)
    except protobuf.DecodeError as error:
        raise RemoteProtocolError(f"no MetricsData: {error}") from None
    return [*_points(message)]


def _points(message: Any) -> Iterator[Point]:
    for resource in message.resource_metrics:
        of_resource = _labels(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if 0 < len(metric.name) <= _CHARACTERS_MAX:
                    yield from _points_of_metric(metric, of_resource)


def _points_of_metric(metric: metrics_pb2.Metric, of_resource: dict[str, str]) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    if kind not in ("gauge", "sum"):
        return
    is_sum = kind == "sum" and metric.sum.is_monotonic
    is_delta = kind == "sum" and metric.sum.aggregation_temporality == 1
    for point in (metric.sum if kind == "sum" else metric.gauge).data_points:
        number = point.WhichOneof("value")
        if number is not None:
            labels = of_resource | _labels(point.attributes)
            some = tuple(sorted(labels.items())[:_LABELS_MAX])
            value = float(getattr(point, number))
            yield Point(metric.name, some, value, is_sum, is_delta)


def _labels(attributes: Iterable[Any]) -> dict[str, str]:
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind in ("string_value", "int_value", "bool_value", "double_value"):
            text = str(getattr(attribute.value, kind))
            if len(attribute.key) <= _CHARACTERS_MAX and len(text) <= _CHARACTERS_MAX:
                found[attribute.key] = text
    return found
