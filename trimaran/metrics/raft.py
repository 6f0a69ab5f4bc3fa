"""A replica of the metadata log. Source: Kafka's `KafkaRaftMetrics`, `BrokerServerMetrics`, `MetadataLoaderMetrics`,
`SnapshotEmitterMetrics`.
"""

from __future__ import annotations

import time

from prometheus_client.core import Metric

from trimaran.metrics.families import Families, counter, gauge, gauges, times
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.replica.metrics import QuorumMetrics
from trimaran.quorum.replica.node import QuorumNode
from trimaran.quorum.replica.status import QuorumStatus
from trimaran.wire.transport.client.channel_traffic import ChannelTraffic

_RAFT = "kafka_server_raftmetrics"
_METADATA = "kafka_server_brokermetadatametrics"


def raft_metrics(node: QuorumNode) -> Families:
    yield from _standing(node)
    yield from _latencies(node.metrics)
    yield from _channel(node.traffic())
    yield from _snapshots(node)


def _standing(node: QuorumNode) -> Families:
    """State, progress and rates of the replica."""
    status = node.describe()
    counted = node.metrics
    yield gauges(
        f"{_RAFT}_current_state",
        "1, with the role in its label.",
        ("current_state",),
        [((_state(node, status),), 1)],
    )
    leader = -1 if status.leader_id is None else status.leader_id
    now = time.monotonic()
    for name, doc, value in (
        ("current_leader", "Node id of the leader, -1 if unknown.", leader),
        ("current_vote", "Whom this node voted for in this epoch, -1 for nobody.", status.voted_id),
        ("current_epoch", "Epoch of the quorum.", status.epoch),
        (
            "high_watermark",
            "Offset below which all is committed, -1 if unknown.",
            status.high_watermark,
        ),
        ("log_end_offset", "Offset of the next record.", status.log_end_offset),
        ("number_of_voters", "Voters in the newest set.", len(node.voters)),
        ("number_of_observers", "Observers that fetch, if this node leads.", len(status.observers)),
        (
            "append_records_rate",
            "Records a second written as leader.",
            counted.appended.per_second(now),
        ),
        (
            "fetch_records_rate",
            "Records a second copied from the leader.",
            counted.fetched.per_second(now),
        ),
    ):
        yield gauge(f"{_RAFT}_{name}", doc, value)


def _latencies(counted: QuorumMetrics) -> Families:
    for name, doc, histogram in (
        ("commit_latency", "from proposing to commit", counted.commit_times),
        (
            "election_latency",
            "from standing for election to a known leader",
            counted.election_times,
        ),
    ):
        mean, longest = histogram.summary().mean_and_longest()
        yield gauge(
            f"{_RAFT}_{name}_avg", f"Milliseconds {doc}, mean of the last minutes.", mean * 1000
        )
        yield gauge(
            f"{_RAFT}_{name}_max",
            f"Milliseconds {doc}, longest of the last minutes.",
            longest * 1000,
        )
    yield times(
        "trimaran_raft_commit_seconds",
        "Time from proposing to commit.",
        [({}, counted.commit_times.summary())],
    )


def _channel(traffic: ChannelTraffic) -> Families:
    for name, doc, value in (
        ("incoming_byte", "Bytes of answers of other replicas.", traffic.bytes_in),
        ("outgoing_byte", "Bytes of requests to other replicas.", traffic.bytes_out),
        ("request", "Requests to other replicas.", traffic.requests),
        ("response", "Answers of other replicas.", traffic.responses),
    ):
        yield counter(f"kafka_server_raftchannelmetrics_{name}", doc, value)


def _state(node: QuorumNode, status: QuorumStatus) -> str:
    role = status.role.lower()
    if not node.settings.identity.can_vote:
        return "observer"
    if role == "unattached" and status.voted_id >= 0:
        return "unattached-voted"
    return role


def _snapshots(node: QuorumNode) -> Families:
    metadata_log = node.log
    if not isinstance(metadata_log, MetadataLog):
        return
    latest = metadata_log.latest_snapshot
    size = None if latest is None else metadata_log.snapshots.size(latest)
    yield gauge(
        "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes",
        "Bytes of the newest snapshot, 0 if there is none.",
        size or 0,
    )


def metadata_metrics(image: MetadataImage, node: QuorumNode) -> Families:
    """How far the image is that this node acts on."""
    offset, _, timestamp_ms = image.provenance
    behind = 0 if offset + 1 >= node.high_watermark.offset else max(0, now_ms() - timestamp_ms)
    yield gauge(
        f"{_METADATA}_last_applied_record_offset",
        "Offset of the last record that was applied.",
        offset,
    )
    yield gauge(
        f"{_METADATA}_last_applied_record_timestamp", "When the leader appended it.", timestamp_ms
    )
    yield gauge(
        f"{_METADATA}_last_applied_record_lag_ms",
        "Its age in milliseconds while more is committed, else 0.",
        behind,
    )
    yield gauge(
        "kafka_server_metadataloader_currentmetadataversion",
        "Finalized level of metadata.version.",
        image.features.metadata_version,
    )


def controller_metadata_metrics(image: MetadataImage, node: QuorumNode) -> Families:
    """The same under the names that controllers have for it."""
    prefix = "kafka_controller_kafkacontroller"
    offset, _, timestamp_ms = image.provenance
    committed = node.high_watermark.offset
    behind = 0 if offset + 1 >= committed else max(0, now_ms() - timestamp_ms)
    found: list[Metric] = [
        gauge(
            f"{prefix}_lastappliedrecordoffset",
            "Offset of the last record that was applied.",
            offset,
        ),
        gauge(f"{prefix}_lastappliedrecordtimestamp", "When the leader appended it.", timestamp_ms),
        gauge(
            f"{prefix}_lastappliedrecordlagms",
            "Its age in milliseconds while more is committed, else 0.",
            behind,
        ),
        gauge(
            f"{prefix}_lastcommittedrecordoffset",
            "Offset of the last record that is committed.",
            committed - 1,
        ),
    ]
    yield from found
