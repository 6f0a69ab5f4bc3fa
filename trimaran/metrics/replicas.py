"""Metrics of a broker's replicas: their numbers, states and logs.

Source: Kafka's `ReplicaManager`, `Partition`, `UnifiedLog`, `LogManager`. A log that was not used since the broker's
start has no metrics, since a scrape does not open it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from trimaran.broker.handlers.context import DirectoryContext
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.partitions.partition import Partition
from trimaran.metrics.families import Families, Table, families, gauge, gauges
from trimaran.wire.identity import Offset

# The number of replicas that are visited in one turn of the loop, which takes about a millisecond.
_PER_TURN = 200
_LABELS = ("topic", "partition")
_LED, _OPEN = "partitions led here", "open logs"


class LedPartition(NamedTuple):
    """A partition led here: whether its ISR has exactly min.insync.replicas members, or fewer."""

    labels: tuple[str, str]
    is_at_min: bool
    is_under_min: bool


class OpenLog(NamedTuple):
    labels: tuple[str, str]
    size_bytes: int
    start_offset: Offset
    end_offset: Offset
    segments: int


@dataclass(slots=True)
class ReplicaState:
    """Findings of a walk over the replicas."""

    throttles: ReplicationThrottles
    counts: Counter[str] = field(default_factory=Counter)
    led: list[LedPartition] = field(default_factory=list)
    logs: list[OpenLog] = field(default_factory=list)
    offline_directories: int = 0


_MANAGER = "kafka_server_replicamanager"
_LOG = "kafka_log_log"
_PARTITION = "kafka_cluster_partition"
REPLICA_METRICS: Table[ReplicaState] = (
    gauge(f"{_MANAGER}_partitioncount", "Replicas on this broker.", lambda s: s.counts["replicas"]),
    gauge(f"{_MANAGER}_leadercount", "Partitions led here.", lambda s: len(s.led)),
    gauge(
        f"{_MANAGER}_underreplicatedpartitions",
        "Partitions led here with replicas outside the ISR.",
        lambda s: s.counts["under_replicated"],
    ),
    gauge(
        f"{_MANAGER}_underminisrpartitioncount",
        "Partitions led here with fewer than min.insync.replicas.",
        lambda s: sum(partition.is_under_min for partition in s.led),
    ),
    gauge(
        f"{_MANAGER}_atminisrpartitioncount",
        "Partitions led here with exactly min.insync.replicas.",
        lambda s: sum(partition.is_at_min for partition in s.led),
    ),
    gauge(
        f"{_MANAGER}_reassigningpartitions",
        "Partitions led here that are being reassigned.",
        lambda s: s.counts["reassigning"],
    ),
    gauge(
        f"{_MANAGER}_offlinereplicacount",
        "Replicas in a log directory that is offline.",
        lambda s: s.counts["offline"],
    ),
    gauges(
        f"{_PARTITION}_atminisr",
        "1 or 0, of a partition led here; see kafka_server_replicamanager_*.",
        _LABELS,
        _LED,
        lambda s: ((partition.labels, partition.is_at_min) for partition in s.led),
    ),
    gauges(
        f"{_PARTITION}_underminisr",
        "1 or 0, of a partition led here; see kafka_server_replicamanager_*.",
        _LABELS,
        _LED,
        lambda s: ((partition.labels, partition.is_under_min) for partition in s.led),
    ),
    gauges(
        f"{_LOG}_size",
        "Bytes of the segments.",
        _LABELS,
        _OPEN,
        lambda s: ((log.labels, log.size_bytes) for log in s.logs),
    ),
    gauges(
        f"{_LOG}_logstartoffset",
        "First offset.",
        _LABELS,
        _OPEN,
        lambda s: ((log.labels, log.start_offset) for log in s.logs),
    ),
    gauges(
        f"{_LOG}_logendoffset",
        "Offset of the next record.",
        _LABELS,
        _OPEN,
        lambda s: ((log.labels, log.end_offset) for log in s.logs),
    ),
    gauges(
        f"{_LOG}_numlogsegments",
        "Segments.",
        _LABELS,
        _OPEN,
        lambda s: ((log.labels, log.segments) for log in s.logs),
    ),
    gauge(
        "kafka_server_leaderreplication_byte_rate",
        "Bytes a second of throttled replicas.",
        lambda s: s.throttles.leader.rate(trio.current_time()),
    ),
    gauge(
        "kafka_server_followerreplication_byte_rate",
        "Bytes a second of throttled replicas.",
        lambda s: s.throttles.follower.rate(trio.current_time()),
    ),
    gauge(
        "kafka_server_alterlogdirsreplication_byte_rate",
        "Bytes a second of throttled replicas.",
        lambda s: s.throttles.moves.rate(trio.current_time()),
    ),
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that are offline.",
        lambda s: s.offline_directories,
    ),
)


def replica_metrics(ctx: DirectoryContext, throttles: ReplicationThrottles) -> Families:
    state = ReplicaState(throttles)
    offline = set(ctx.directories.offline_ids())
    state.offline_directories = len(offline)
    for number, partition in enumerate(ctx.partitions, 1):
        state.counts["replicas"] += 1
        state.counts["offline"] += partition.state.directory_of(ctx.node_id) in offline
        if partition.leads:
            _count_led(partition, state)
        _add_log(partition, state)
        if number % _PER_TURN == 0:
            yield None
    yield from families(REPLICA_METRICS, state)


def _count_led(partition: Partition, found: ReplicaState) -> None:
    state = partition.state
    in_sync = len(state.isr)
    least = min(partition.settings.min_insync_replicas, len(state.replicas))
    # As in Kafka: while a reassignment adds replicas, only the original replicas must be in sync.
    found.counts["under_replicated"] += in_sync < len(state.replicas) - len(state.adding)
    found.counts["reassigning"] += bool(state.adding or state.removing)
    labels = (partition.topic, str(partition.index))
    found.led.append(LedPartition(labels, in_sync == least, in_sync < least))


def _add_log(partition: Partition, found: ReplicaState) -> None:
    log = partition.open_log
    if log is None:
        return
    labels = (partition.topic, str(partition.index))
    start, end, segments = log.log_start_offset, log.log_end_offset, len(log.segment_base_offsets)
    found.logs.append(OpenLog(labels, log.size_bytes, start, end, segments))
