"""Metrics of the groups that this broker coordinates. Source: Kafka's `GroupCoordinatorMetrics`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.metrics.families import Families, Table, families, gauge, gauges


@dataclass(slots=True)
class GroupCounts:
    """Counts of the loaded shards; `states` are by type and state."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    offset_count: int = 0
    shards: int = 0


_GROUPS = "kafka_server_groupmetadatamanager"
GROUP_METRICS: Table[GroupCounts] = (
    gauges(
        f"{_GROUPS}_numgroups",
        "Groups that this broker coordinates.",
        ("type", "state"),
        "kinds of groups × their states",
        lambda c: c.states.items(),
    ),
    gauge(f"{_GROUPS}_numoffsets", "Committed offsets of those groups.", lambda c: c.offset_count),
    gauge(
        "trimaran_group_shards", "Partitions of __consumer_offsets served here.", lambda c: c.shards
    ),
)


def group_metrics(groups: GroupCoordinator) -> Families:
    counts = GroupCounts()
    for epoch in list(groups.runtime.epochs):
        if epoch.state is not ShardState.ACTIVE:
            continue
        shard = epoch.active()
        counts.shards += 1
        for listed in groups.listed(shard):
            for group in listed:
                counts.states[group.group_type, group.group_state] += 1
                counts.offset_count += shard.store.offset_count(group.group_id)
            yield None
    yield from families(GROUP_METRICS, counts)
