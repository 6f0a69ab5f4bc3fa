"""Requests and connections of one server. Source: Kafka's `RequestMetrics`, `SocketServer`, `Selector`."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add

from trimaran.metrics.families import Families, counter, counters, gauge, gauges, times
from trimaran.wire.errors import ErrorCode
from trimaran.wire.transport.metrics.request_metrics import RequestMetrics
from trimaran.wire.transport.server.server import Server

# In Kafka it is the number of a network thread; we have one.
_PROCESSOR = "0"


def request_metrics(servers: list[Server]) -> Families:
    """Metrics of a broker and a controller in one process together, as in Kafka."""
    apis: dict[str, list[RequestMetrics]] = {}
    for server in servers:
        for route in server.registry.routes():
            if route.metrics.times.count:
                apis.setdefault(route.metrics.name, []).append(route.metrics)
    versions: Counter[tuple[str, str]] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    for name, each in apis.items():
        for item in each:
            for (version, code), count in item.outcomes.items():
                versions[name, str(version)] += count
                errors[name, _name_of(code)] += count
    yield counters(
        "kafka_network_requestmetrics_requests",
        "Requests answered.",
        ("request", "version"),
        versions.items(),
    )
    yield counters(
        "kafka_network_requestmetrics_errors",
        "Requests answered, by the error of the whole answer.",
        ("request", "error"),
        errors.items(),
    )
    yield times(
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from a decoded request to its answer, with all that it waited for.",
        [
            ({"request": name}, reduce(add, (item.times.summary() for item in each)))
            for name, each in apis.items()
        ],
        unit=1000,
    )


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def connection_metrics(servers: list[Server]) -> Families:
    """Metrics of all listeners."""
    by_listener: Counter[str] = Counter()
    for server in servers:
        by_listener.update(dict.fromkeys(server.addresses, 0))
        by_listener.update(connection.info.listener for connection in server.connections.values())
    yield gauges(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        ("listener", "networkProcessor"),
        [((name, _PROCESSOR), count) for name, count in by_listener.items()],
    )
    counted = [server.counters for server in servers]
    for name, doc, value in (
        ("connection_creation", "Connections accepted.", sum(c.accepted for c in counted)),
        ("connection_close", "Connections closed.", sum(c.closed for c in counted)),
        (
            "failed_authentication",
            "Logins that failed, TLS handshakes included.",
            sum(c.failed_authentications + c.failed_handshakes for c in counted),
        ),
        (
            "expired_connections_killed",
            "Connections closed because their login was over.",
            sum(c.expired_sessions for c in counted),
        ),
    ):
        yield counter(f"kafka_server_socket_server_metrics_{name}", doc, value)
    yield counter(
        "trimaran_connections_refused",
        "Connections closed at once: too many of them.",
        sum(c.refused for c in counted),
    )
    yield counter(
        "trimaran_connections_delayed",
        "Connections that came too fast for their listener, and waited.",
        sum(c.delayed for c in counted),
    )
    yield counter(
        "trimaran_connections_excess_closed",
        "Connections of clients closed because fewer are allowed.",
        sum(c.excess_closed for c in counted),
    )
    yield counter(
        "trimaran_bad_frames",
        "Connections closed because what they sent was no request.",
        sum(c.bad_frames + c.bad_requests for c in counted),
    )
    pools = [pool for server in servers for pool in server.pools()]
    yield gauge(
        "trimaran_connection_memory_bytes",
        "Bytes held for requests and answers of connections.",
        sum(pool.used for pool in pools),
    )
    yield gauge(
        "trimaran_connection_memory_waiting",
        "Connections that wait for memory.",
        sum(pool.waiting for pool in pools),
    )
