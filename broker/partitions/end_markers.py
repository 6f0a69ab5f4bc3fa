"""Ending transactions in a partition: a coordinator's marker becomes a control batch.

Source: `ReplicaManager.appendRecords` with `AppendOrigin.COORDINATOR`, `ProducerAppendInfo.appendEndTxnMarker` of Kafka (KIP-98, KIP-890).
"""

from __future__ import annotations

from broker.partitions.leader import LeaderEpoch
from log.batches.batch import iter_batches
from log.partitions.partition_log import AppendInfo
from log.producers.marker import EndMarker, build_end_marker


def append_end_marker(
    leader: LeaderEpoch,
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    transaction_version: int,
    now_ms: int,
) -> AppendInfo:
    """Appends the marker, which is durable when the high watermark has passed it.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (T4, T6); as `LeaderEpoch.append`.
    """
    leader.log.producers.check_marker(marker, producer_id, producer_epoch, transaction_version)
    data = memoryview(
        build_end_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
    )
    return leader.append(data, list(iter_batches(data)))
