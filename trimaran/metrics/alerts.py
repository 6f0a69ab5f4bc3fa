"""Alerts that every cluster should have, as a file of rules for Prometheus.

The alerts on replicas and controllers use the same metrics as Strimzi's rules; the other alerts use metrics of
trimaran.
"""

from __future__ import annotations

import json
from typing import NamedTuple


class Alert(NamedTuple):
    """An alert; `after` is the time for which `expression` must hold. With `page` it wakes an operator, else it is a
    warning.
    """

    name: str
    expression: str
    after: str
    page: bool
    summary: str


ALERTS = (
    Alert(
        "UnderReplicatedPartitions",
        "kafka_server_replicamanager_underreplicatedpartitions > 0",
        "1m",
        False,
        "{{ $value }} partitions led by {{ $labels.instance }} lack replicas in their ISR",
    ),
    Alert(
        "UnderMinIsrPartitions",
        "kafka_server_replicamanager_underminisrpartitioncount > 0",
        "30s",
        True,
        "{{ $value }} partitions led by {{ $labels.instance }} refuse acks=all",
    ),
    Alert(
        "OfflinePartitions",
        "max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "10s",
        True,
        "{{ $value }} partitions have no leader",
    ),
    Alert(
        "NoSingleActiveController",
        "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "15s",
        True,
        "{{ $value }} controllers say that they are active",
    ),
    Alert(
        "OfflineLogDirectory",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "10s",
        True,
        "{{ $value }} log directories of {{ $labels.instance }} are offline",
    ),
    Alert(
        "UncleanLeaderElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[5m]) > 0",
        "0s",
        True,
        "a partition got a leader from outside its ISR: committed records may be lost",
    ),
    Alert(
        "QuorumWithoutLeader",
        "max by (job) (kafka_server_raftmetrics_current_leader) < 0",
        "30s",
        True,
        "no replica of the metadata log knows a leader",
    ),
    Alert(
        "MetadataNotCommitted",
        "max by (job) (kafka_server_raftmetrics_log_end_offset) > "
        "max by (job) (kafka_server_raftmetrics_high_watermark) and "
        "increase((max by (job) (kafka_server_raftmetrics_high_watermark))[1m:]) == 0",
        "30s",
        True,
        "the metadata log grows, and its high watermark stands still",
    ),
    Alert(
        "MetadataBehind",
        "kafka_server_brokermetadatametrics_last_applied_record_lag_ms > 5000",
        "30s",
        False,
        "{{ $labels.instance }} applies metadata that is {{ $value }} ms old",
    ),
    Alert(
        "FencedBroker",
        "max by (job) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "5m",
        False,
        "{{ $value }} registered brokers are fenced",
    ),
    Alert(
        "MirrorBehind",
        "trimaran_zk_mirror_lag_seconds > 10",
        "30s",
        False,
        "ZooKeeper shows the metadata of {{ $value }} s ago",
    ),
    Alert(
        "MirrorWithoutZooKeeper",
        "trimaran_zk_mirror_connected == 0",
        "30s",
        False,
        "the mirror {{ $labels.instance }} has no session with ZooKeeper",
    ),
    Alert(
        "MirrorRefused",
        "trimaran_zk_mirror_quarantined > 0",
        "5m",
        False,
        "ZooKeeper refuses {{ $value }} znodes of the mirror: see trimaran zk status",
    ),
    Alert(
        "NodeUnreachable",
        "up == 0",
        "1m",
        True,
        "{{ $labels.instance }} does not answer",
    ),
    Alert(
        "LoopBusy",
        "kafka_network_socketserver_networkprocessoravgidle_percent < 0.3",
        "5m",
        False,
        "the event loop of {{ $labels.instance }} is idle {{ $value | humanizePercentage }} of the time",
    ),
)


def alert_rules() -> str:
    """YAML; strings are written as JSON, which is YAML too."""
    lines = ["groups:", "  - name: trimaran", "    rules:"]
    for alert in ALERTS:
        severity = "critical" if alert.page else "warning"
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.after}",
            f"        labels: {{severity: {severity}}}",
            f"        annotations: {{summary: {json.dumps(alert.summary)}}}",
        ]
    return "\n".join([*lines, ""])
