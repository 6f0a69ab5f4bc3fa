"""Metrics of requests and connections of one server. Source: Kafka's `RequestMetrics`, `SocketServer`, `Selector`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from trimaran.metrics.families import (
    Families,
    Table,
    counter,
    counters,
    families,
    gauge,
    gauges,
    times_by,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.transport.metrics.request_metrics import RequestMetrics
from trimaran.wire.transport.metrics.time_histogram import TimeSummary
from trimaran.wire.transport.server.server import Server

# In Kafka the label is the number of a network thread; here there is one.
_PROCESSOR = "0"


@dataclass(slots=True)
class RequestCounts:
    """Requests by API and version, and by API and error; times by API."""

    versions: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    times: dict[str, TimeSummary] = field(default_factory=dict)


_REQUESTS = "kafka_network_requestmetrics"
_SOCKETS = "kafka_server_socket_server_metrics"
REQUEST_METRICS: Table[RequestCounts] = (
    counters(
        f"{_REQUESTS}_requests",
        "Requests answered.",
        ("request", "version"),
        "served versions of APIs",
        lambda counts: counts.versions.items(),
    ),
    counters(
        f"{_REQUESTS}_errors",
        "Requests answered, by the error of the whole answer.",
        ("request", "error"),
        "APIs × errors",
        lambda counts: counts.errors.items(),
    ),
    times_by(
        f"{_REQUESTS}_totaltimems",
        "Milliseconds from a decoded request to its answer, with all that it waited for.",
        ("request",),
        "APIs",
        lambda counts: [((name,), summary) for name, summary in counts.times.items()],
        unit=1000,
    ),
)

CONNECTION_METRICS: Table[list[Server]] = (
    gauges(
        f"{_SOCKETS}_connection_count",
        "Open connections.",
        ("listener", "networkProcessor"),
        "listeners",
        lambda servers: [
            ((name, _PROCESSOR), count) for name, count in _by_listener(servers).items()
        ],
    ),
    counter(
        f"{_SOCKETS}_connection_creation",
        "Connections accepted.",
        lambda servers: sum(server.counters.accepted for server in servers),
    ),
    counter(
        f"{_SOCKETS}_connection_close",
        "Connections closed.",
        lambda servers: sum(server.counters.closed for server in servers),
    ),
    counter(
        f"{_SOCKETS}_failed_authentication",
        "Failed logins, including TLS handshakes.",
        lambda servers: sum(
            server.counters.failed_authentications + server.counters.failed_handshakes
            for server in servers
        ),
    ),
    counter(
        f"{_SOCKETS}_expired_connections_killed",
        "Connections closed because their login had expired.",
        lambda servers: sum(server.counters.expired_sessions for server in servers),
    ),
    counter(
        "trimaran_connections_refused",
        "Connections closed immediately because too many were open.",
        lambda servers: sum(server.counters.refused for server in servers),
    ),
    counter(
        "trimaran_connections_delayed",
        "Connections delayed because they exceeded the rate of their listener.",
        lambda servers: sum(server.counters.delayed for server in servers),
    ),
    counter(
        "trimaran_connections_excess_closed",
        "Client connections closed because they exceeded the limit.",
        lambda servers: sum(server.counters.excess_closed for server in servers),
    ),
    counter(
        "trimaran_bad_frames",
        "Connections closed because of an invalid request.",
        lambda servers: sum(
            server.counters.bad_frames + server.counters.bad_requests for server in servers
        ),
    ),
    gauge(
        "trimaran_connection_memory_bytes",
        "Bytes held for requests and answers of connections.",
        lambda servers: sum(pool.used for server in servers for pool in server.pools()),
    ),
    gauge(
        "trimaran_connection_memory_waiting",
        "Connections that wait for memory.",
        lambda servers: sum(pool.waiting for server in servers for pool in server.pools()),
    ),
)


def request_metrics(servers: list[Server]) -> Families:
    """Yields the metrics of all servers in this process together, as Kafka does."""
    apis: dict[str, list[RequestMetrics]] = {}
    for server in servers:
        for route in server.registry.routes():
            if route.metrics.times.count:
                apis.setdefault(route.metrics.name, []).append(route.metrics)
    counts = RequestCounts()
    for name, each in apis.items():
        for metrics in each:
            for (version, code), count in metrics.outcomes.items():
                counts.versions[name, str(version)] += count
                counts.errors[name, _name_of(code)] += count
        counts.times[name] = reduce(add, (metrics.times.summary() for metrics in each))
    return families(REQUEST_METRICS, counts)


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def connection_metrics(servers: list[Server]) -> Families:
    """Yields the metrics of all listeners."""
    return families(CONNECTION_METRICS, servers)


def _by_listener(servers: list[Server]) -> Counter[str]:
    found: Counter[str] = Counter()
    for server in servers:
        found.update(dict.fromkeys(server.addresses, 0))
        found.update(connection.info.listener for connection in server.connections.values())
    return found
