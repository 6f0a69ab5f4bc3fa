"""A dashboard for Grafana: the health of the cluster, its throughput, and its latencies."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3


class Panel(NamedTuple):
    """A panel; `queries` are pairs (expression, legend); `unit` is one of Grafana's units."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


_BROKER_TOPICS = "kafka_server_brokertopicmetrics"
PANELS = (
    Panel(
        "Partitions that need attention",
        "short",
        (
            ("max(kafka_controller_kafkacontroller_offlinepartitionscount)", "without leader"),
            ("sum(kafka_server_replicamanager_underminisrpartitioncount)", "under min ISR"),
            ("sum(kafka_server_replicamanager_underreplicatedpartitions)", "under-replicated"),
        ),
    ),
    Panel(
        "Nodes",
        "short",
        (
            ("sum(up)", "answer"),
            ("max(kafka_controller_kafkacontroller_activebrokercount)", "active brokers"),
            ("max(kafka_controller_kafkacontroller_fencedbrokercount)", "fenced brokers"),
            ("sum(kafka_controller_kafkacontroller_activecontrollercount)", "active controllers"),
        ),
    ),
    Panel(
        "Leader and epoch of the quorum",
        "short",
        (
            ("max(kafka_server_raftmetrics_current_leader)", "leader"),
            ("max(kafka_server_raftmetrics_current_epoch)", "epoch"),
        ),
    ),
    Panel(
        "Bytes in, by topic",
        "Bps",
        ((f'sum by (topic) (rate({_BROKER_TOPICS}_bytesin_total{{topic!=""}}[1m]))', "{{topic}}"),),
    ),
    Panel(
        "Bytes out, by topic",
        "Bps",
        (
            (
                f'sum by (topic) (rate({_BROKER_TOPICS}_bytesout_total{{topic!=""}}[1m]))',
                "{{topic}}",
            ),
        ),
    ),
    Panel(
        "Records in, by broker",
        "short",
        ((f'rate({_BROKER_TOPICS}_messagesin_total{{topic=""}}[1m])', "{{instance}}"),),
    ),
    Panel(
        "p99 of requests, by API",
        "ms",
        (
            (
                'max by (request) (kafka_network_requestmetrics_totaltimems{quantile="0.99"})',
                "{{request}}",
            ),
        ),
    ),
    Panel(
        "p99 of a flush of logs (fsync)",
        "s",
        (
            (
                "histogram_quantile(0.99, sum by (le, instance) (rate(trimaran_fsync_seconds_bucket[5m])))",
                "{{instance}}",
            ),
        ),
    ),
    Panel(
        "Idle share of the event loop",
        "percentunit",
        (("kafka_network_socketserver_networkprocessoravgidle_percent", "{{instance}}"),),
    ),
    Panel(
        "Offset of the metadata log",
        "short",
        (
            ("max(kafka_server_raftmetrics_log_end_offset)", "end"),
            ("max(kafka_server_raftmetrics_high_watermark)", "committed"),
            (
                "min(kafka_server_brokermetadatametrics_last_applied_record_offset)",
                "slowest broker",
            ),
        ),
    ),
    Panel(
        "Memory of processes",
        "bytes",
        (("process_resident_memory_bytes", "{{instance}}"),),
    ),
    Panel(
        "Connections",
        "short",
        (("kafka_server_socket_server_metrics_connection_count", "{{instance}} {{listener}}"),),
    ),
)


def dashboard(title: str) -> str:
    """Returns the dashboard as JSON to import into Grafana."""
    panels = [_panel(number, panel) for number, panel in enumerate(PANELS)]
    return (
        json.dumps(
            {
                "title": title,
                "uid": "trimaran",
                "schemaVersion": 38,
                "refresh": "15s",
                "time": {"from": "now-1h", "to": "now"},
                "templating": {
                    "list": [{"name": "source", "type": "datasource", "query": "prometheus"}]
                },
                "panels": panels,
            },
            indent=2,
        )
        + "\n"
    )


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": expression,
                "legendFormat": legend,
                "datasource": source,
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }
