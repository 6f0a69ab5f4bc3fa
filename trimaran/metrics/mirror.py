"""A ZooKeeper mirror. Names of ours, and those of Kafka's migration where they say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.metrics.families import Families, counter, gauge, gauges

if TYPE_CHECKING:
    from trimaran.zkcompat.mirroring.mirror import Mirror

_OURS = "trimaran_zk_mirror"


def mirror_metrics(mirror: Mirror) -> Families:
    """Metrics of the mirror in this process, whether it writes or stands by."""
    status, feed = mirror.status, mirror.feed
    quorum_offset = feed.image.provenance.offset
    behind = max(0, quorum_offset - status.published_offset)
    yield gauges(
        f"{_OURS}_state", "1, with the state in its label.", ("state",), [((status.state,), 1)]
    )
    for name, doc, value in (
        (
            "published_offset",
            "Offset of the metadata log that ZooKeeper shows.",
            status.published_offset,
        ),
        ("lag_records", "Records of the metadata log that ZooKeeper does not show.", behind),
        (
            "lag_seconds",
            "Since when the oldest of them is committed.",
            feed.lag_ms(status.published_offset) / 1000,
        ),
        (
            "quorum_silent_seconds",
            "For how long the quorum has said nothing.",
            feed.silent_seconds(),
        ),
        ("quarantined", "Znodes that ZooKeeper refuses, held back.", len(mirror.quarantine)),
        (
            "unknown_records",
            "Records of a later Kafka in the metadata log: the znodes may be stale by them.",
            feed.image.unknown.count,
        ),
        (
            "connected",
            "1 while there is a session with ZooKeeper, else 0.",
            mirror.keeper.is_connected,
        ),
        (
            "controller_epoch",
            "Version of the claim that this mirror writes under.",
            status.controller_epoch,
        ),
    ):
        yield gauge(f"{_OURS}_{name}", doc, value)
    for name, doc, value in (
        ("writes", "Operations written.", status.writes),
        ("transactions", "Transactions written.", status.transactions),
        ("claims", "Claims of the tree.", status.claims),
        ("comparisons", "Comparisons of the whole tree.", status.comparisons),
        ("verifications", "Verifications of the whole tree.", status.verifications),
        (
            "repairs",
            "Times that znodes of others' making or changing were put right.",
            status.repairs,
        ),
    ):
        yield counter(f"{_OURS}_{name}", doc, value)
    yield gauge(
        "kafka_controller_kafkacontroller_zkwritebehindlag",
        "Records of the metadata log that ZooKeeper does not show.",
        behind,
    )
