"""All metrics of nodes, by subject, in the order of /metrics."""

from __future__ import annotations

from typing import Any

from trimaran.metrics.clients import PUSH_METRICS
from trimaran.metrics.cluster import CLUSTER_METRICS
from trimaran.metrics.elections import ELECTION_METRICS
from trimaran.metrics.families import Table
from trimaran.metrics.flushes import FLUSH_METRICS
from trimaran.metrics.groups import GROUP_METRICS, GROUP_SHARD_METRICS
from trimaran.metrics.mirror import MIRROR_METRICS
from trimaran.metrics.process import DISK_METRICS, LOOP_METRICS
from trimaran.metrics.raft import (
    ACTIVE_METRICS,
    BROKER_METADATA_METRICS,
    CONTROLLER_METADATA_METRICS,
    RAFT_METRICS,
)
from trimaran.metrics.replicas import REPLICA_METRICS
from trimaran.metrics.requests import CONNECTION_METRICS, REQUEST_METRICS
from trimaran.metrics.shares import SHARE_SHARD_METRICS, SHARE_STATE_METRICS, SHARING_METRICS
from trimaran.metrics.topics import TOPIC_METRICS

SUBJECTS: dict[str, tuple[Table[Any], ...]] = {
    "Every process": (LOOP_METRICS, DISK_METRICS),
    "Every node": (REQUEST_METRICS, CONNECTION_METRICS, RAFT_METRICS, FLUSH_METRICS),
    "Controllers": (
        ACTIVE_METRICS,
        CONTROLLER_METADATA_METRICS,
        CLUSTER_METRICS,
        ELECTION_METRICS,
    ),
    "Brokers": (
        BROKER_METADATA_METRICS,
        TOPIC_METRICS,
        REPLICA_METRICS,
        GROUP_METRICS,
        GROUP_SHARD_METRICS,
        SHARING_METRICS,
        SHARE_STATE_METRICS,
        SHARE_SHARD_METRICS,
        PUSH_METRICS,
    ),
    "ZooKeeper mirrors": (MIRROR_METRICS,),
}
