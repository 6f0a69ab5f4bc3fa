"""Metrics of a replica of the metadata log. Source: Kafka's `KafkaRaftMetrics`, `BrokerServerMetrics`,
`MetadataLoaderMetrics`, `SnapshotEmitterMetrics`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from trimaran.metrics.families import Families, Table, counter, families, gauge, gauges, times
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.replica.node import QuorumNode
from trimaran.quorum.replica.status import QuorumStatus
from trimaran.wire.identity import NO_NODE
from trimaran.wire.transport.client.channel_traffic import ChannelTraffic
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram


class ReplicaMetrics(NamedTuple):
    """A replica of the metadata log at one moment; `now` is a time of `time.monotonic`."""

    node: QuorumNode
    status: QuorumStatus
    traffic: ChannelTraffic
    now: float


_RAFT = "kafka_server_raftmetrics"
_CHANNEL = "kafka_server_raftchannelmetrics"
_BROKER = "kafka_server_brokermetadatametrics"
_CONTROLLER = "kafka_controller_kafkacontroller"
RAFT_METRICS: Table[ReplicaMetrics] = (
    gauges(
        f"{_RAFT}_current_state",
        "1, with the role in its label.",
        ("current_state",),
        "1",
        lambda r: [((_role(r),), 1)],
    ),
    gauge(
        f"{_RAFT}_current_leader",
        "Node id of the leader, -1 if unknown.",
        lambda r: NO_NODE if r.status.leader_id is None else r.status.leader_id,
    ),
    gauge(
        f"{_RAFT}_current_vote",
        "Node id that this node voted for in this epoch, -1 if none.",
        lambda r: NO_NODE if r.status.voted_id is None else r.status.voted_id,
    ),
    gauge(f"{_RAFT}_current_epoch", "Epoch of the quorum.", lambda r: r.status.epoch),
    gauge(
        f"{_RAFT}_high_watermark",
        "Offset below which all is committed, -1 if unknown.",
        lambda r: r.status.high_watermark,
    ),
    gauge(
        f"{_RAFT}_log_end_offset", "Offset of the next record.", lambda r: r.status.log_end_offset
    ),
    gauge(f"{_RAFT}_number_of_voters", "Voters in the newest set.", lambda r: len(r.node.voters)),
    gauge(
        f"{_RAFT}_number_of_observers",
        "Observers that fetch, if this node leads.",
        lambda r: len(r.status.observers),
    ),
    gauge(
        f"{_RAFT}_append_records_rate",
        "Records a second written as leader.",
        lambda r: r.node.metrics.appended.per_second(r.now),
    ),
    gauge(
        f"{_RAFT}_fetch_records_rate",
        "Records a second copied from the leader.",
        lambda r: r.node.metrics.fetched.per_second(r.now),
    ),
    gauge(
        f"{_RAFT}_commit_latency_avg",
        "Milliseconds from proposing to commit, mean of the last minutes.",
        lambda r: _mean_ms(r.node.metrics.commit_times),
    ),
    gauge(
        f"{_RAFT}_commit_latency_max",
        "Milliseconds from proposing to commit, longest of the last minutes.",
        lambda r: _longest_ms(r.node.metrics.commit_times),
    ),
    gauge(
        f"{_RAFT}_election_latency_avg",
        "Milliseconds from standing for election to a known leader, mean of the last minutes.",
        lambda r: _mean_ms(r.node.metrics.election_times),
    ),
    gauge(
        f"{_RAFT}_election_latency_max",
        "Milliseconds from standing for election to a known leader, longest of the last minutes.",
        lambda r: _longest_ms(r.node.metrics.election_times),
    ),
    times(
        "trimaran_raft_commit_seconds",
        "Time from proposing to commit.",
        lambda r: r.node.metrics.commit_times.summary(),
    ),
    counter(
        f"{_CHANNEL}_incoming_byte",
        "Bytes of answers of other replicas.",
        lambda r: r.traffic.bytes_in,
    ),
    counter(
        f"{_CHANNEL}_outgoing_byte",
        "Bytes of requests to other replicas.",
        lambda r: r.traffic.bytes_out,
    ),
    counter(f"{_CHANNEL}_request", "Requests to other replicas.", lambda r: r.traffic.requests),
    counter(f"{_CHANNEL}_response", "Answers of other replicas.", lambda r: r.traffic.responses),
    gauge(
        "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes",
        "Bytes of the newest snapshot, 0 if there is none.",
        lambda r: _snapshot_bytes(r.node),
    ),
)


class AppliedMetadata(NamedTuple):
    """The progress of the image on which a node acts; `committed` is the high watermark."""

    image: MetadataImage
    committed: int

    def lag_ms(self) -> int:
        """Returns the age of the last applied record while more is committed, else 0."""
        offset, _, timestamp_ms = self.image.provenance
        return 0 if offset + 1 >= self.committed else max(0, now_ms() - timestamp_ms)


BROKER_METADATA_METRICS: Table[AppliedMetadata] = (
    gauge(
        f"{_BROKER}_last_applied_record_offset",
        "Offset of the last record that was applied.",
        lambda a: a.image.provenance.offset,
    ),
    gauge(
        f"{_BROKER}_last_applied_record_timestamp",
        "Time at which the leader appended it.",
        lambda a: a.image.provenance.timestamp_ms,
    ),
    gauge(
        f"{_BROKER}_last_applied_record_lag_ms",
        "Its age in milliseconds while later records are committed, otherwise 0.",
        lambda a: a.lag_ms(),
    ),
    gauge(
        "kafka_server_metadataloader_currentmetadataversion",
        "Finalized level of metadata.version.",
        lambda a: a.image.features.metadata_version,
    ),
)

ACTIVE_METRICS: Table[bool] = (
    gauge(
        f"{_CONTROLLER}_activecontrollercount",
        "1 for the active controller, otherwise 0.",
        lambda is_active: is_active,
    ),
)

# The same metrics with the names that Kafka's controllers use.
CONTROLLER_METADATA_METRICS: Table[AppliedMetadata] = (
    gauge(
        f"{_CONTROLLER}_lastappliedrecordoffset",
        "Offset of the last record that was applied.",
        lambda a: a.image.provenance.offset,
    ),
    gauge(
        f"{_CONTROLLER}_lastappliedrecordtimestamp",
        "Time at which the leader appended it.",
        lambda a: a.image.provenance.timestamp_ms,
    ),
    gauge(
        f"{_CONTROLLER}_lastappliedrecordlagms",
        "Its age in milliseconds while later records are committed, otherwise 0.",
        lambda a: a.lag_ms(),
    ),
    gauge(
        f"{_CONTROLLER}_lastcommittedrecordoffset",
        "Offset of the last record that is committed.",
        lambda a: a.committed - 1,
    ),
)


def raft_metrics(node: QuorumNode) -> Families:
    replica = ReplicaMetrics(node, node.describe(), node.traffic(), time.monotonic())
    return families(RAFT_METRICS, replica)


def broker_metadata_metrics(image: MetadataImage, node: QuorumNode) -> Families:
    return families(BROKER_METADATA_METRICS, AppliedMetadata(image, node.high_watermark.offset))


def controller_metadata_metrics(image: MetadataImage, node: QuorumNode) -> Families:
    return families(CONTROLLER_METADATA_METRICS, AppliedMetadata(image, node.high_watermark.offset))


def _mean_ms(histogram: TimeHistogram) -> float:
    mean, _ = histogram.summary().mean_and_longest()
    return mean * 1000


def _longest_ms(histogram: TimeHistogram) -> float:
    _, longest = histogram.summary().mean_and_longest()
    return longest * 1000


def _role(replica: ReplicaMetrics) -> str:
    role = replica.status.role.lower()
    if not replica.node.settings.identity.can_vote:
        return "observer"
    if role == "unattached" and replica.status.voted_id is not None:
        return "unattached-voted"
    return role


def _snapshot_bytes(node: QuorumNode) -> int | None:
    if not isinstance(node.log, MetadataLog):
        return None
    latest = node.log.latest_snapshot
    return 0 if latest is None else node.log.snapshots.size(latest) or 0
