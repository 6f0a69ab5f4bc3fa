"""Metrics that each coordinator has: the states of its partitions, and the times of their loads.

Source: Kafka's `CoordinatorRuntimeMetricsImpl`. Not here: queues and threads of events, and lingering batches, since
the event loop handles each request at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from trimaran.broker.coordination.runtime import CoordinatorRuntime
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.metrics.families import MetricLine, Table, gauge, gauges

# Kafka's names. A closed shard whose partition is still led here failed, and is loaded again.
_STATES = {
    ShardState.LOADING: "loading",
    ShardState.ACTIVE: "active",
    ShardState.CLOSED: "failed",
}


def _load_times(name: str, text: str, index: int) -> MetricLine[CoordinatorRuntime[Any, Any]]:
    return gauge(
        name,
        text,
        lambda runtime: runtime.spec.load_times.summary().mean_and_longest()[index] * 1000,
    )


def runtime_metrics(prefix: str, topic: str) -> Table[CoordinatorRuntime[Any, Any]]:
    """Declares the metrics of the coordinator whose partitions are those of `topic`."""
    return (
        gauges(
            f"{prefix}_num_partitions",
            f"Partitions of {topic} led here.",
            ("state",),
            "3",
            lambda runtime: _partitions(runtime).items(),
        ),
        _load_times(
            f"{prefix}_partition_load_time_avg",
            "Milliseconds to load one of them, mean of the last minutes.",
            0,
        ),
        _load_times(
            f"{prefix}_partition_load_time_max",
            "Milliseconds to load one of them, longest of the last minutes.",
            1,
        ),
    )


def _partitions(runtime: CoordinatorRuntime[Any, Any]) -> dict[tuple[str], int]:
    counts = Counter(_STATES[epoch.state] for epoch in runtime.epochs)
    return {(name,): counts[name] for name in _STATES.values()}
