"""Code shared by files for containers: the environment of a node of `trimaran.container`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trimaran.wire.identity import NodeId

DATA = "/var/lib/kafka/data"
CLIENT_PORT, CONTROLLER_PORT, METRICS_PORT = 9092, 9093, 9404
STOP_SECONDS = 180
_REPLICATION_MAX = 3


def cluster_environment(
    cluster_id: str, voters: Mapping[NodeId, str], brokers: int
) -> dict[str, str]:
    """Returns the environment of all nodes; `voters` are the hosts of controllers by id."""
    replication = min(_REPLICATION_MAX, brokers)
    named = ",".join(f"{number}@{host}:{CONTROLLER_PORT}" for number, host in voters.items())
    return {
        "CLUSTER_ID": cluster_id,
        "KAFKA_CONTROLLER_QUORUM_VOTERS": named,
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": str(replication),
        "KAFKA_MIN_INSYNC_REPLICAS": str(max(1, replication - 1)),
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": str(replication),
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": str(replication),
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": str(max(1, replication - 1)),
    }


def yaml_lines(values: Mapping[str, str], indent: int) -> str:
    """Returns lines of `key: "value"`; strings of JSON are valid YAML."""
    return "\n".join(f"{' ' * indent}{key}: {json.dumps(value)}" for key, value in values.items())
