"""All analyses in the order of the report: what operators and auditors need most comes first."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from trimaran.spark.analyses.analysis import Analysis
from trimaran.spark.analyses.clients import (
    consumer_lag,
    duplicates,
    open_transactions,
    producer_anomalies,
    rebalances,
)
from trimaran.spark.analyses.cluster import (
    broker_availability,
    config_log,
    controller_silence,
    controller_timeline,
    features_and_voters,
    log_matching,
    metadata_churn,
    producer_id_rate,
    recovery_waterfall,
    zookeeper_parity,
)
from trimaran.spark.analyses.partitions import (
    isr_storms,
    leader_balance,
    leadership_churn,
    partition_availability,
    rack_exposure,
    reassignments,
    replication_timeline,
    topic_lifecycle,
    unclean_elections,
)
from trimaran.spark.analyses.records import (
    batch_sizes,
    compression,
    key_skew,
    partition_skew,
    record_sizes,
    replica_divergence,
    retention,
    throughput,
    timestamps,
)

ANALYSES: dict[str, Analysis] = {
    module.ANALYSIS.name: module.ANALYSIS
    for module in (
        partition_availability,
        replication_timeline,
        consumer_lag,
        recovery_waterfall,
        unclean_elections,
        replica_divergence,
        broker_availability,
        config_log,
        open_transactions,
        throughput,
        compression,
        controller_timeline,
        controller_silence,
        key_skew,
        retention,
        isr_storms,
        timestamps,
        leadership_churn,
        leader_balance,
        rack_exposure,
        topic_lifecycle,
        reassignments,
        metadata_churn,
        log_matching,
        zookeeper_parity,
        producer_id_rate,
        features_and_voters,
        partition_skew,
        batch_sizes,
        producer_anomalies,
        duplicates,
        rebalances,
        record_sizes,
    )
}


class UnknownAnalysis(ValueError):
    """No analysis has that name; the message lists those there are."""


def choose(names: Sequence[str] | None) -> list[Analysis]:
    """The analyses named (`consumer-lag`, `consumer_lag`, `D10`), all without names. Raises UnknownAnalysis."""
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
