"""Metrics of log flushes of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimaran.metrics.families import Families, Table, families, histogram
from trimaran.wire.transport.metrics.cumulative_histogram import CumulativeHistogram

if TYPE_CHECKING:
    from trimaran.broker.process.server import RunningBroker
    from trimaran.log.durability.group_commit import GroupCommit
    from trimaran.quorum.controller.server import RunningController

FLUSH_METRICS: Table[CumulativeHistogram] = (
    histogram(
        "trimaran_fsync_seconds",
        "Time to flush a share of a directory's dirty logs, by the kernel or a thread.",
        lambda flushes: flushes,
    ),
)


def flush_metrics(controller: RunningController | None, broker: RunningBroker | None) -> Families:
    total = CumulativeHistogram()
    for commit in {id(commit): commit for commit in _commits(controller, broker)}.values():
        total.add(commit.times)
    yield from families(FLUSH_METRICS, total)


def _commits(
    controller: RunningController | None, broker: RunningBroker | None
) -> Iterator[GroupCommit]:
    if controller is not None:
        yield controller.group_commit
    if broker is not None:
        yield broker.parts.storage.metadata_commit
        yield from broker.parts.storage.commits.values()
