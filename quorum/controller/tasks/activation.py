"""The first records of a new active controller. Source: Kafka's `ActivationRecordsGenerator`, KIP-868, KIP-966."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from trimaran.quorum import events
from trimaran.quorum.controller.configs.feature_updates import min_isr_record
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.features import ELR_VERSION, SUPPORTED_FEATURES
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.versions import METADATA_VERSION
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

SERVED = {feature.name: feature for feature in SUPPORTED_FEATURES}


def activation_records(
    image: MetadataImage,
    bootstrap: Sequence[Message],
    *,
    in_transaction: bool,
    min_insync_replicas: int = 1,
) -> list[Message]:
    """Returns the bootstrap records for an empty log, as one transaction; otherwise the end of a transaction that a
    predecessor left open.

    `min_insync_replicas` is the value in this node's file; with eligible leader replicas it becomes the cluster's
    value.
    """
    records: list[Message] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if image.features.metadata_version:
        return records
    first = [record for record in bootstrap if _is_served(record)]
    levels = {
        record.name: record.feature_level
        for record in first
        if isinstance(record, FeatureLevelRecord)
    }
    if levels.get(ELR_VERSION, 0):
        first.append(min_isr_record("", str(min_insync_replicas)))
    # Nodes of older levels do not know transactions; all records are in one atomic batch anyway.
    if levels.get(METADATA_VERSION, versions.LATEST) < versions.TRANSACTIONS:
        return records + first
    return [
        *records,
        BeginTransactionRecord(name="Bootstrap records"),
        *first,
        EndTransactionRecord(),
    ]


def _is_served(record: Message) -> bool:
    """Returns whether the feature can be enabled here. Apache Kafka's tool formats directories with features of its own
    (groups of KIP-848, transactions 2). An empty log has not used any of them, so they can be left disabled; our
    brokers could not register with them.
    """
    if not isinstance(record, FeatureLevelRecord):
        return True
    served = SERVED.get(record.name)
    if served is not None and served.min_level <= record.feature_level <= served.max_level:
        return True
    events.FEATURE_UNKNOWN.log(log, feature=record.name, level=record.feature_level)
    return False
