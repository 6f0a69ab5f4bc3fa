"""The replicas of a broker: how many, how they stand, what their logs hold.

Source: Kafka's `ReplicaManager`, `Partition`, `UnifiedLog`, `LogManager`. A log that was not used since the broker's
start is not opened for this, and has no metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import trio
from prometheus_client.core import GaugeMetricFamily

from trimaran.broker.handlers.context import Context
from trimaran.broker.partitions.partition import Partition
from trimaran.metrics.families import Families, gauge

# Replicas between two turns of the loop: a millisecond's worth.
_PER_TURN = 200
_LABELS = ("topic", "partition")

_OF_BROKER = (
    ("partitioncount", "Replicas on this broker."),
    ("leadercount", "Partitions led here."),
    ("underreplicatedpartitions", "Partitions led here with replicas outside the ISR."),
    ("underminisrpartitioncount", "Partitions led here with fewer than min.insync.replicas."),
    ("atminisrpartitioncount", "Partitions led here with just min.insync.replicas."),
    ("reassigningpartitions", "Partitions led here that are being reassigned."),
    ("offlinereplicacount", "Replicas in a log directory that is offline."),
)


def replica_metrics(ctx: Context) -> Families:
    at_min, under_min = _partition_family("atminisr"), _partition_family("underminisr")
    logs = _LogFamilies()
    count: Counter[str] = Counter()
    offline = set(ctx.directories.offline_ids())
    for number, partition in enumerate(ctx.partitions, 1):
        count["partitioncount"] += 1
        count["offlinereplicacount"] += partition.state.directory_of(ctx.node_id) in offline
        if partition.leads:
            _count_led(partition, count, at_min, under_min)
        logs.add(partition)
        if number % _PER_TURN == 0:
            yield None
    for name, doc in _OF_BROKER:
        yield gauge(f"kafka_server_replicamanager_{name}", doc, count[name])
    yield from (at_min, under_min, *logs)
    for name, throttle in (
        ("leader", ctx.throttles.leader),
        ("follower", ctx.throttles.follower),
        ("alterlogdirs", ctx.throttles.moves),
    ):
        yield gauge(
            f"kafka_server_{name}replication_byte_rate",
            "Bytes a second of throttled replicas.",
            throttle.rate(trio.current_time()),
        )
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that are offline.",
        len(offline),
    )


def _count_led(
    one: Partition, count: Counter[str], at_min: GaugeMetricFamily, under_min: GaugeMetricFamily
) -> None:
    state = one.state
    in_sync, least = len(state.isr), min(one.settings.min_insync_replicas, len(state.replicas))
    is_at, is_under = in_sync == least, in_sync < least
    count["leadercount"] += 1
    # As in Kafka: while a reassignment adds replicas, those that it began with are what must be in sync.
    count["underreplicatedpartitions"] += in_sync < len(state.replicas) - len(state.adding)
    count["atminisrpartitioncount"] += is_at
    count["underminisrpartitioncount"] += is_under
    count["reassigningpartitions"] += bool(state.adding or state.removing)
    labels = (one.topic, str(one.index))
    at_min.add_metric(labels, is_at)
    under_min.add_metric(labels, is_under)


def _partition_family(name: str) -> GaugeMetricFamily:
    doc = "1 or 0, of a partition led here; see kafka_server_replicamanager_*."
    return GaugeMetricFamily(f"kafka_cluster_partition_{name}", doc, labels=_LABELS)


class _LogFamilies:
    """Metrics of the open logs."""

    def __init__(self) -> None:
        self._size = _log_family("size", "Bytes of the segments.")
        self._start = _log_family("logstartoffset", "First offset.")
        self._end = _log_family("logendoffset", "Offset of the next record.")
        self._segments = _log_family("numlogsegments", "Segments.")

    def __iter__(self) -> Iterator[GaugeMetricFamily]:
        return iter((self._size, self._start, self._end, self._segments))

    def add(self, partition: Partition) -> None:
        log = partition.open_log
        if log is None:
            return
        labels = (partition.topic, str(partition.index))
        self._size.add_metric(labels, log.size_bytes)
        self._start.add_metric(labels, log.log_start_offset)
        self._end.add_metric(labels, log.log_end_offset)
        self._segments.add_metric(labels, len(log.segment_base_offsets))


def _log_family(name: str, doc: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kafka_log_log_{name}", doc, labels=_LABELS)
