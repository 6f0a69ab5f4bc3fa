"""Metrics of a ZooKeeper mirror, with the names of Kafka's migration for metrics that have the same meaning there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.metrics.families import Families, Table, counter, families, gauge, gauges

if TYPE_CHECKING:
    from trimaran.zkcompat.mirroring.mirror import Mirror


def _records_behind(mirror: Mirror) -> int:
    return max(0, mirror.feed.image.provenance.offset - mirror.status.published_offset)


_ZK = "trimaran_zk_mirror"
MIRROR_METRICS: Table[Mirror] = (
    gauges(
        f"{_ZK}_state",
        "1, with the state in its label.",
        ("state",),
        "1",
        lambda m: [((m.status.state,), 1)],
    ),
    gauge(
        f"{_ZK}_published_offset",
        "Offset of the metadata log that ZooKeeper shows.",
        lambda m: m.status.published_offset,
    ),
    gauge(
        f"{_ZK}_lag_records",
        "Records of the metadata log that ZooKeeper does not show.",
        _records_behind,
    ),
    gauge(
        f"{_ZK}_lag_seconds",
        "Seconds since the oldest of them was committed.",
        lambda m: m.feed.lag_ms(m.status.published_offset) / 1000,
    ),
    gauge(
        f"{_ZK}_quorum_silent_seconds",
        "Seconds since the last response of the quorum.",
        lambda m: m.feed.silent_seconds(),
    ),
    gauge(
        f"{_ZK}_quarantined",
        "Znodes held back because ZooKeeper refused operations on them.",
        lambda m: len(m.quarantine),
    ),
    gauge(
        f"{_ZK}_unknown_records",
        "Records of a later Kafka in the metadata log: znodes may be stale because of them.",
        lambda m: m.feed.image.unknown.count,
    ),
    gauge(
        f"{_ZK}_connected",
        "1 while there is a session with ZooKeeper, otherwise 0.",
        lambda m: m.keeper.is_connected,
    ),
    gauge(
        f"{_ZK}_controller_epoch",
        "Version of the claim that this mirror writes under.",
        lambda m: m.status.controller_epoch,
    ),
    counter(f"{_ZK}_writes", "Operations written.", lambda m: m.status.writes),
    counter(f"{_ZK}_transactions", "Transactions written.", lambda m: m.status.transactions),
    counter(f"{_ZK}_claims", "Claims of the tree.", lambda m: m.status.claims),
    counter(f"{_ZK}_comparisons", "Comparisons of the whole tree.", lambda m: m.status.comparisons),
    counter(
        f"{_ZK}_verifications", "Verifications of the whole tree.", lambda m: m.status.verifications
    ),
    counter(
        f"{_ZK}_repairs",
        "Repairs of znodes that other clients created or changed.",
        lambda m: m.status.repairs,
    ),
    gauge(
        "kafka_controller_kafkacontroller_zkwritebehindlag",
        "Records of the metadata log that ZooKeeper does not show.",
        _records_behind,
    ),
)


def mirror_metrics(mirror: Mirror) -> Families:
    """Yields the metrics of the mirror in this process, whether it leads or is on standby."""
    return families(MIRROR_METRICS, mirror)
