"""All analyses in the order of the report: the most important for operators and auditors come first."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

from trimaran.spark.analyses.analysis import REGISTERED, Analysis

# Each is a module below `trimaran.spark.analyses`, with a function of the same name that `@analysis` registers.
ORDER = (
    "partitions.partition_availability",
    "partitions.replication_timeline",
    "clients.consumer_lag",
    "cluster.recovery_waterfall",
    "partitions.unclean_elections",
    "records.replica_divergence",
    "cluster.broker_availability",
    "cluster.config_log",
    "clients.open_transactions",
    "records.throughput",
    "records.compression",
    "cluster.controller_timeline",
    "cluster.controller_silence",
    "records.key_skew",
    "records.retention",
    "partitions.isr_storms",
    "records.timestamps",
    "partitions.leadership_churn",
    "partitions.leader_balance",
    "partitions.rack_exposure",
    "partitions.topic_lifecycle",
    "partitions.reassignments",
    "cluster.metadata_churn",
    "cluster.log_matching",
    "cluster.zookeeper_parity",
    "cluster.producer_id_rate",
    "cluster.features_and_voters",
    "records.partition_skew",
    "records.batch_sizes",
    "clients.producer_anomalies",
    "clients.duplicates",
    "clients.rebalances",
    "records.record_sizes",
)


def _loaded(path: str) -> Analysis:
    import_module(f"trimaran.spark.analyses.{path}")
    return REGISTERED[path.rpartition(".")[2]]


ANALYSES: dict[str, Analysis] = {analysis.name: analysis for analysis in map(_loaded, ORDER)}


class UnknownAnalysis(ValueError):
    """No analysis has that name; the message lists the existing ones."""


def choose(names: Sequence[str] | None) -> list[Analysis]:
    """Returns the named analyses (`consumer-lag`, `consumer_lag`, `D10`); all if no name is given. Raises
    UnknownAnalysis.
    """
    if not names:
        return list(ANALYSES.values())
    numbers = {analysis.number.lower(): name for name, analysis in ANALYSES.items()}
    chosen = []
    for given in names:
        name = numbers.get(given.lower(), given.replace("-", "_").lower())
        if name not in ANALYSES:
            near = difflib.get_close_matches(name, ANALYSES, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise UnknownAnalysis(
                f"no analysis is called {given}{hint} There are: {', '.join(ANALYSES)}"
            )
        chosen.append(ANALYSES[name])
    return chosen
