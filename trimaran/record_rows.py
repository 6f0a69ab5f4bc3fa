"""Record batches as JSON objects, with the column names of Spark's `kafka_log` at its `batches` level."""

from __future__ import annotations

from typing import Any

from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.log.old_formats.old_batches import timestamp_type_id


def batch_row(batch: BatchView) -> dict[str, Any]:
    """What a batch says of itself; times in milliseconds."""
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.count,
        "batch_bytes": batch.size,
        "compression": batch.compression.name.lower(),
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "timestampType": timestamp_type_id(batch),
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "crc": batch.crc,
        "crc_valid": has_valid_crc(batch),
    }
