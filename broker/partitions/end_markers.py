"""Ends transactions in a partition: turns a coordinator's marker into a control batch.

Source: `ReplicaManager.appendRecords` with `AppendOrigin.COORDINATOR`, `ProducerAppendInfo.appendEndTxnMarker` of Kafka
(KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from trimaran.log.batches.batch import BatchView
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.state import ProducerState
from trimaran.wire.identity import ProducerEpoch, ProducerId

A_co = TypeVar("A_co", covariant=True)
A = TypeVar("A")


class HasProducers(Protocol):
    """A log with producer state, such as `PartitionLog`."""

    @property
    def producers(self) -> ProducerState: ...


class Leads(Protocol[A_co]):
    """The part of `PartitionLeader` that this module uses."""

    @property
    def log(self) -> HasProducers: ...

    def append(self, records: memoryview, views: Sequence[BatchView]) -> A_co: ...


def append_end_marker(
    leader: Leads[A],
    marker: EndMarker,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    transaction_version: int,
    now_ms: int,
) -> A:
    """Appends the marker, which is durable once the high watermark has passed it.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (T4, T6); the codes of
            `PartitionLeader.append`.
    """
    leader.log.producers.check_marker(marker, producer_id, producer_epoch, transaction_version)
    data = memoryview(
        build_end_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
    )
    return leader.append(data, [BatchView(data)])
