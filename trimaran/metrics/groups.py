"""Groups that this broker coordinates. Source: Kafka's `GroupCoordinatorMetrics`."""

from __future__ import annotations

from collections import Counter

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.metrics.families import Families, gauge, gauges


def group_metrics(groups: GroupCoordinator) -> Families:
    """Metrics of the loaded shards."""
    states: Counter[tuple[str, str]] = Counter()
    offsets = shards = 0
    for epoch in list(groups.runtime.epochs):
        if epoch.state is not ShardState.ACTIVE:
            continue
        shard = epoch.active()
        shards += 1
        for listed in groups.listed(shard):
            for group in listed:
                states[group.group_type, group.group_state] += 1
                offsets += shard.store.offset_count(group.group_id)
            yield None
    yield gauges(
        "kafka_server_groupmetadatamanager_numgroups",
        "Groups that this broker coordinates.",
        ("type", "state"),
        states.items(),
    )
    yield gauge(
        "kafka_server_groupmetadatamanager_numoffsets",
        "Committed offsets of those groups.",
        offsets,
    )
    yield gauge("trimaran_group_shards", "Partitions of __consumer_offsets served here.", shards)
