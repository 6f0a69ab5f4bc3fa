"""The deliveries of a share group, from the metrics of the brokers that lead its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from trimaran.client.metrics_text import text_of
from trimaran.errors.user_error import UserError
from trimaran.wire.identity import TopicPartition

_METRICS = "kafka_server_sharepartitionmetrics"
_RECORDS = f"{_METRICS}_inflightmessagecount"
_TIMEOUTS = f"{_METRICS}_acquisitionlocktimeout"
_NAMES = (_RECORDS, f"{_TIMEOUTS}_total", _TIMEOUTS)
# The maximum number of nodes whose metrics are read.
NODES_MAX = 100


@dataclass(slots=True)
class Deliveries:
    """The deliveries in a partition: records in flight now, and records whose lock has ended."""

    in_flight: int = 0
    timed_out: int = 0


def deliveries(
    sources: Mapping[str, str], group: str, seconds: float
) -> dict[TopicPartition, Deliveries]:
    """Returns the deliveries in each partition with a share session; `sources` are addresses of metrics. Nodes that do
    not respond within `seconds` are left out.
    """
    found: dict[TopicPartition, Deliveries] = {}
    for address in list(sources.values())[:NODES_MAX]:
        try:
            _add(text_of(address, seconds, _NAMES), group, found)
        except (UserError, ValueError):
            continue
    return found


def _add(text: str, group: str, found: dict[TopicPartition, Deliveries]) -> None:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("group") != group or not sample.name.startswith(_METRICS):
                continue
            place = TopicPartition(labels["topic"], int(labels["partition"]))
            told = found.setdefault(place, Deliveries())
            if sample.name == _RECORDS:
                told.in_flight += int(sample.value)
            elif sample.name.startswith(_TIMEOUTS):
                told.timed_out += int(sample.value)
