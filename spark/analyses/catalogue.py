"""All analyses in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from spark.analyses import (
    batch_sizes,
    controller_timeline,
    leadership_churn,
    partition_availability,
    partition_skew,
    replication_timeline,
    throughput,
)
from spark.analyses.analysis import Analysis

ANALYSES: dict[str, Analysis] = {
    module.ANALYSIS.name: module.ANALYSIS
    for module in (
        controller_timeline,
        partition_availability,
        replication_timeline,
        leadership_churn,
        throughput,
        partition_skew,
        batch_sizes,
    )
}


class UnknownAnalysis(ValueError):
    """No analysis has that name; the message lists those there are."""


def choose(names: Sequence[str] | None) -> list[Analysis]:
    """The analyses named, all without names; dashes and underscores are the same. Raises UnknownAnalysis."""
    if not names:
        return list(ANALYSES.values())
    wanted = [name.replace("-", "_") for name in names]
    for name in wanted:
        if name not in ANALYSES:
            raise UnknownAnalysis(f"no analysis is called {name}; there are: {', '.join(ANALYSES)}")
    return [ANALYSES[name] for name in wanted]
