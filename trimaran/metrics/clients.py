"""Metrics that clients have pushed to this broker (KIP-714), and metrics about these pushes.

A client's metric keeps its name, with the prefix `kafka_clients_` instead of `org.apache.kafka.`, so it cannot be
confused with a metric of the broker. Its labels are the client's labels, and labels that identify the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client.core import Metric

from trimaran.broker.telemetry.clients import ClientMetrics
from trimaran.broker.telemetry.received import ClientSeries, ReceivedMetrics
from trimaran.metrics.families import Families, Table, counter, families, gauge

_PREFIX = "kafka_clients_"
_OF_KAFKA = "org.apache.kafka."
_TOTAL = "_total"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
# Labels that identify the client; address and port of a connection would add no information.
_IDENTITY = ("client_instance_id", "client_id", "client_software_name", "client_software_version")
_DOC = "Pushed by clients (KIP-714)."


class PushState(NamedTuple):
    metrics: ClientMetrics
    received: ReceivedMetrics


_CLIENTS = "kafka_server_client_metrics"
PUSH_METRICS: Table[PushState] = (
    counter(
        f"{_CLIENTS}_unknown_subscription_request",
        "Pushes for another subscription.",
        lambda s: s.metrics.counts.unknown_subscriptions,
    ),
    counter(
        f"{_CLIENTS}_throttle",
        "Requests that arrived before the push interval had passed.",
        lambda s: s.metrics.counts.throttled,
    ),
    counter(f"{_CLIENTS}_plugin_export", "Accepted pushes.", lambda s: s.metrics.counts.exported),
    counter(
        f"{_CLIENTS}_plugin_error",
        "Pushes that were not valid metrics.",
        lambda s: s.metrics.counts.refused,
    ),
    gauge(f"{_CLIENTS}_instance_count", "Clients that push here.", lambda s: len(s.metrics)),
    counter(
        "trimaran_client_metrics_dropped",
        "Values of clients that were dropped because the limit was reached.",
        lambda s: s.received.dropped,
    ),
)


def client_metrics(metrics: ClientMetrics) -> Families:
    """Yields the metrics; none if clients are not subscribed to any."""
    if metrics.received is not None:
        yield from families(PUSH_METRICS, PushState(metrics, metrics.received))
        yield from _pushed(metrics.received)


def _pushed(received: ReceivedMetrics) -> Families:
    pushed: dict[str, Metric] = {}
    for client in received.clients():
        _add(pushed, client)
        yield None
    yield from pushed.values()


def _add(pushed: dict[str, Metric], client: ClientSeries) -> None:
    """Adds the samples of a client. The first kind of a name wins: a gauge and a counter of one name would be invalid
    text.
    """
    identity = {name: client.labels[name] for name in _IDENTITY if name in client.labels}
    for (name, labels, is_sum), newest in client.series.items():
        kind = "counter" if is_sum else "gauge"
        family_name = _family_name(name)
        family = pushed.get(family_name)
        if family is None:
            family = pushed[family_name] = Metric(family_name, _DOC, kind)
        if family.type == kind:
            suffix = _TOTAL if is_sum else ""
            family.add_sample(
                family_name + suffix, _label_names(dict(labels)) | identity, newest.value
            )


def _family_name(name: str) -> str:
    """Returns the name of the family, without the `_total` at the end of every counter."""
    own = name.removeprefix(_OF_KAFKA)
    return _PREFIX + _NOT_IN_NAMES.sub("_", own).removesuffix(_TOTAL)


def _label_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns valid label names: `node.id` becomes `node_id`; none begins with a digit, or with `__`, which Prometheus
    reserves.
    """
    found = {}
    for name, value in labels.items():
        clean = _NOT_IN_NAMES.sub("_", name).lstrip("_")
        if clean not in _IDENTITY:  # only the broker sets these labels
            found[f"_{clean}" if clean[:1].isdigit() or not clean else clean] = value
    return found
