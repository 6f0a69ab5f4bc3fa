"""Metrics of share groups: their deliveries, their sessions, and the states that this broker stores for them.

Source: Kafka's `ShareGroupMetrics`, `SharePartitionMetrics`, `ShareSessionCache`, `ShareCoordinatorMetrics`. Not here:
times and ratios of Kafka's fetch locks, since a share partition is read in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.process.families import ShareParts
from trimaran.broker.share_state.coordinator import ShareCoordinator
from trimaran.broker.sharing.counts import DeliveryCounts
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.rules import AcknowledgeType
from trimaran.broker.sharing.share_partitions import SharePartitions
from trimaran.metrics.coordinators import runtime_metrics
from trimaran.metrics.families import (
    Families,
    MetricLine,
    Rows,
    Table,
    counter,
    counters,
    families,
    gauge,
    gauges,
    times,
    times_by,
)

# The number of share partitions that are visited in one turn of the loop, which takes about a millisecond.
_PER_TURN = 200
_GROUPS = "share groups with a session here"
_PARTITIONS = "share partitions here: those of share sessions"
_OF_PARTITION = ("group", "topic", "partition")
_COUNTED = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)


class SharePartitionCounts(NamedTuple):
    labels: tuple[str, str, str]
    records: int
    batches: int
    timed_out: int


class SharingState(NamedTuple):
    sharing: SharePartitions
    partitions: list[SharePartitionCounts]


def _by_group(
    name: str, text: str, read: Callable[[DeliveryCounts], int]
) -> MetricLine[SharingState]:
    """Declares a counter with a sample for each group, and one without a group for the total."""

    def rows(state: SharingState) -> Rows:
        counts = state.sharing.counts
        yield from (((group_id,), read(of_group)) for group_id, of_group in counts.groups())
        yield (), sum(map(read, counts.everything()))

    return counters(name, f"{text} Without a group: of all.", ("group",), f"{_GROUPS} + 1", rows)


_SHARES = "kafka_server_sharegroupmetrics"
_SHARE_PARTITIONS = "kafka_server_sharepartitionmetrics"
_SESSIONS = "kafka_server_sharesessioncache"
SHARING_METRICS: Table[SharingState] = (
    counters(
        f"{_SHARES}_recordacknowledgements",
        "Records acknowledged by members.",
        ("ackType",),
        "4",
        lambda s: (
            ((kind.name.capitalize(),), s.sharing.counts.acknowledgements[kind])
            for kind in _COUNTED
        ),
    ),
    times(
        f"{_SHARES}_partitionloadtimems",
        "Milliseconds to load the state of a share partition.",
        lambda s: s.sharing.counts.load_times.summary(),
        unit=1000,
    ),
    times_by(
        f"{_SHARES}_topicpartitionsacquiretimems",
        "Milliseconds from a ShareFetch to its records, with all that it waited for.",
        ("group",),
        _GROUPS,
        lambda s: (
            ((group_id,), of_group.acquire_times.summary())
            for group_id, of_group in s.sharing.counts.groups()
        ),
        unit=1000,
    ),
    _by_group(
        f"{_SHARES}_deadletterqueuerecordcount",
        "Records written to dead-letter queues.",
        lambda group: group.letters,
    ),
    _by_group(
        f"{_SHARES}_deadletterqueuetotalproducerequests",
        "Requests that wrote to dead-letter queues.",
        lambda group: group.letter_produces,
    ),
    _by_group(
        f"{_SHARES}_deadletterqueuefailedproducerequests",
        "Those that were given up: their records are in no queue.",
        lambda group: group.failed_letter_produces,
    ),
    gauges(
        f"{_SHARE_PARTITIONS}_inflightmessagecount",
        "Offsets between the start of a share partition and the last acquired record.",
        _OF_PARTITION,
        _PARTITIONS,
        lambda s: ((each.labels, each.records) for each in s.partitions),
    ),
    gauges(
        f"{_SHARE_PARTITIONS}_inflightbatchcount",
        "Batches that have these records.",
        _OF_PARTITION,
        _PARTITIONS,
        lambda s: ((each.labels, each.batches) for each in s.partitions),
    ),
    counters(
        f"{_SHARE_PARTITIONS}_acquisitionlocktimeout",
        "Records whose acquisition lock has ended without an acknowledgement.",
        _OF_PARTITION,
        _PARTITIONS,
        lambda s: ((each.labels, each.timed_out) for each in s.partitions),
    ),
    gauge(
        f"{_SESSIONS}_sharesessionscount",
        "Share sessions.",
        lambda s: len(s.sharing.sessions),
    ),
    gauge(
        f"{_SESSIONS}_sharepartitionscount",
        "Partitions in share sessions.",
        lambda s: s.sharing.sessions.partitions,
    ),
    counter(
        f"{_SESSIONS}_sharesessionevictions",
        "Share sessions that ended with their connection.",
        lambda s: s.sharing.counts.evictions,
    ),
    gauges(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Requests that wait for records.",
        ("delayedOperation",),
        "1",
        lambda s: [(("ShareFetch",), s.sharing.counts.waiting)],
    ),
    counter(
        "kafka_server_delayedsharefetchmetrics_expires",
        "ShareFetch requests that waited as long as they may.",
        lambda s: s.sharing.counts.expired,
    ),
)


def _pruned(coordinator: ShareCoordinator) -> Rows:
    for epoch in list(coordinator.runtime.epochs):
        if epoch.state is ShardState.ACTIVE and (offset := epoch.active().pruned_before):
            yield (coordinator.runtime.spec.topic, str(epoch.partition_index)), offset


_COORDINATOR = "kafka_server_share_coordinator_metrics"
SHARE_STATE_METRICS: Table[ShareCoordinator] = (
    counter(f"{_COORDINATOR}_write", "Writes of share partitions' states.", lambda c: c.writes),
    gauge(
        f"{_COORDINATOR}_write_latency_avg",
        "Milliseconds from a write to its commit, mean of the last minutes.",
        lambda c: c.write_times.summary().mean_and_longest()[0] * 1000,
    ),
    gauge(
        f"{_COORDINATOR}_write_latency_max",
        "Milliseconds from a write to its commit, longest of the last minutes.",
        lambda c: c.write_times.summary().mean_and_longest()[1] * 1000,
    ),
    gauges(
        f"{_COORDINATOR}_last_pruned_offset",
        "Offset before which records of the state topic were deleted.",
        ("topic", "partition"),
        "partitions of __share_group_state led here",
        _pruned,
    ),
)
SHARE_SHARD_METRICS = runtime_metrics(_COORDINATOR, "__share_group_state")


def share_metrics(shares: ShareParts) -> Families:
    partitions = []
    for number, share in enumerate(shares.sharing, 1):
        partitions.append(_counted(share))
        if number % _PER_TURN == 0:
            yield None
    yield from families(SHARING_METRICS, SharingState(shares.sharing, partitions))
    yield from families(SHARE_STATE_METRICS, shares.coordinator)
    yield from families(SHARE_SHARD_METRICS, shares.coordinator.runtime)


def _counted(share: LedShare) -> SharePartitionCounts:
    core, topic = share.core, share.leader.replica.topic_partition
    return SharePartitionCounts(
        (share.key.group_id, topic.topic, str(topic.partition)),
        0 if core is None else core.size,
        0 if core is None else core.batch_count,
        share.timed_out,
    )
