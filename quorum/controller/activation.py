"""What a new active controller writes first. Source: Kafka's `ActivationRecordsGenerator`, KIP-868."""

from __future__ import annotations

from collections.abc import Sequence

from quorum.metadata.image import MetadataImage
from wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from wire.schema import Message


def activation_records(
    image: MetadataImage, bootstrap: Sequence[Message], *, in_transaction: bool
) -> list[Message]:
    """The bootstrap records for an empty log, as one transaction; the end of one that a predecessor left open."""
    records: list[Message] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if not image.features.metadata_version:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
        records += bootstrap
        records.append(EndTransactionRecord())
    return records
