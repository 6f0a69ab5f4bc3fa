"""What a new active controller writes first. Source: Kafka's `ActivationRecordsGenerator`, KIP-868."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quorum.controller.features import SUPPORTED_FEATURES
from quorum.metadata.image import MetadataImage
from wire.records.features import FeatureLevelRecord
from wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from wire.schema import Message

log = logging.getLogger(__name__)

SERVED = frozenset(feature.name for feature in SUPPORTED_FEATURES)


def activation_records(
    image: MetadataImage, bootstrap: Sequence[Message], *, in_transaction: bool
) -> list[Message]:
    """The bootstrap records for an empty log, as one transaction; the end of one that a predecessor left open."""
    records: list[Message] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if not image.features.metadata_version:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
        records += [record for record in bootstrap if _is_served(record)]
        records.append(EndTransactionRecord())
    return records


def _is_served(record: Message) -> bool:
    """Whether the feature may be on here. Apache Kafka's tool formats for features of its own (groups of KIP-848, transactions 2);
    none has been used yet in an empty log, so leaving them off loses nothing, and our brokers could not register with them.
    """
    if not isinstance(record, FeatureLevelRecord) or record.name in SERVED:
        return True
    log.warning("%s %d is not served here and stays off", record.name, record.feature_level)
    return False
