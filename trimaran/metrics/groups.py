"""Metrics of the groups that this broker coordinates. Source: Kafka's `GroupCoordinatorMetrics`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.groups.classic.groups import CLASSIC
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.groups.registry import KINDS
from trimaran.metrics.coordinators import runtime_metrics
from trimaran.metrics.families import Families, MetricLine, Table, counter, families, gauge, gauges


@dataclass(slots=True)
class GroupCounts:
    """Counts of the loaded shards; `states` are by type and state."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    offset_count: int = 0
    shards: int = 0
    rebalances: Counter[str] = field(default_factory=Counter)

    def of_kind(self, kind: str) -> int:
        return sum(count for (each, _), count in self.states.items() if each == kind)


_COORDINATOR = "kafka_server_group_coordinator_metrics"


def _by_state(kind: GroupKind[Any]) -> MetricLine[GroupCounts]:
    """Returns the groups of a kind by state: each state has a value, also if it is 0."""
    return gauges(
        f"{_COORDINATOR}_{kind.name}_group_count",
        f"Groups of type {kind.name}.",
        ("state",),
        "their states",
        lambda c: (((state,), c.states[kind.name, state]) for state in kind.states),
    )


def _rebalances(kind: GroupKind[Any]) -> MetricLine[GroupCounts]:
    name, epochs = kind.name, "epochs"
    metric = f"{name}_group_rebalance"
    if name == CLASSIC:
        metric, epochs = "group_completed_rebalance", "generations"
    return counter(
        f"{_COORDINATOR}_{metric}",
        f"New {epochs} of groups of type {name}.",
        lambda c: c.rebalances[name],
    )


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
    gauges(
        f"{_COORDINATOR}_group_count",
        "Groups that this broker coordinates.",
        ("protocol",),
        "kinds of groups",
        lambda c: (((kind.name,), c.of_kind(kind.name)) for kind in KINDS),
    ),
    *map(_by_state, KINDS),
    gauge(
        f"{_COORDINATOR}_offset_count",
        "Committed offsets of those groups.",
        lambda c: c.offset_count,
    ),
    *map(_rebalances, KINDS),
    gauge(
        "trimaran_group_shards", "Partitions of __consumer_offsets served here.", lambda c: c.shards
    ),
)


GROUP_SHARD_METRICS = runtime_metrics(_COORDINATOR, "__consumer_offsets")


def group_metrics(groups: GroupCoordinator) -> Families:
    counts = GroupCounts(rebalances=groups.rebalances)
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
    yield from families(GROUP_SHARD_METRICS, groups.runtime)
