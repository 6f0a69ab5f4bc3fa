"""All tables of `kafka_metadata`: the only list of them, from which options, views and documentation are derived."""

from __future__ import annotations

from trimaran.spark.kafka_metadata.histories import (
    acl_history,
    broker_history,
    config_history,
    feature_history,
    voter_history,
)
from trimaran.spark.kafka_metadata.log_tables import (
    batches,
    control,
    image,
    quorum_epochs,
    records,
    snapshots,
)
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.kafka_metadata.topic_histories import (
    partition_events,
    partition_history,
    topic_history,
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        records.TABLE,
        batches.TABLE,
        control.TABLE,
        snapshots.TABLE,
        image.TABLE,
        partition_history.TABLE,
        partition_events.ISR_CHANGES,
        partition_events.LEADER_CHANGES,
        broker_history.TABLE,
        config_history.TABLE,
        topic_history.TABLE,
        feature_history.TABLE,
        quorum_epochs.TABLE,
        voter_history.TABLE,
        acl_history.TABLE,
    )
}
