"""Sends batches of records to partitions, each exactly once even if a response is lost: with a producer id and sequence
numbers (KIP-98).

One batch is in flight at a time, so the leader remembers a batch that is sent again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trimaran.errors.refused import Needs, check
from trimaran.log.batches.records import BatchHeader, NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import ProducerEpoch, ProducerId, TopicPartition
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

TIMEOUT_MS = 30_000
SEQUENCE_MASK = 0x7FFF_FFFF  # the largest int32 is followed by 0

# pairs of key and value
Lines = Sequence[tuple[bytes | None, bytes | None]]


class SendOptions(NamedTuple):
    """How batches are sent. With `acks` 1 only the leader has a record when it is acknowledged. There is no producer id
    then: a batch whose response is lost is not sent again, and may have been written.
    """

    acks: int = -1
    compression: Compression = Compression.NONE

    @property
    def is_idempotent(self) -> bool:
        return self.acks == -1


# Written by all in-sync replicas, uncompressed.
ALL_ACKS = SendOptions()


class ProducerIdentity(NamedTuple):
    producer_id: ProducerId
    epoch: ProducerEpoch


class IdempotentProducer:
    """A producer for one topic; it requests its producer id before the first batch."""

    transactional_id: str | None = None

    def __init__(
        self, client: BlockingClient, topic: str, delivery: SendOptions = ALL_ACKS
    ) -> None:
        self._client = client
        self._topic = topic
        self._delivery = delivery
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[int, int] = {}  # the next sequence number by partition

    @property
    def identity(self) -> ProducerIdentity:
        """Returns the producer id and epoch, which are requested once."""
        if self._identity is None:
            self._identity = self._new_identity()
        return self._identity

    def send(self, partition: int, lines: Lines) -> None:
        """Sends pairs of key and value as records with the current time; see `send_records`."""
        now_ms = time.time_ns() // 1_000_000
        self.send_records(partition, [NewRecord(key, value, now_ms) for key, value in lines])

    def send_records(self, partition: int, records: Sequence[NewRecord]) -> None:
        """Sends records and returns when they are acknowledged: by default, when all in-sync replicas have them.

        Raises:
            KafkaError or RequestTimedOut: they were not written, or the outcome is unknown.
            ConnectionLost: the outcome is unknown; only without a producer id.
        """
        sequence = self._sequences.get(partition, 0)
        header: BatchHeader = {
            "compression": self._delivery.compression,
            "is_transactional": self.transactional_id is not None,
        }
        if self._delivery.is_idempotent:
            identity = self.identity
            header |= {
                "producer_id": identity.producer_id,
                "producer_epoch": identity.epoch,
                "base_sequence": sequence,
            }
        batch = build_batch(records, **header)
        produced = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self._delivery.acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[produced])],
        )
        response = self._client.call(
            LeaderNode(TopicPartition(self._topic, partition)),
            request,
            version=9,
            retry_unknown=self._delivery.is_idempotent,
        )
        result = single_item(
            single_item(response.responses, "topic").partition_responses, "partition"
        )
        if result.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # the record is in the log
            needs = Needs("WRITE", topic=self._topic, transactional_id=self.transactional_id or "")
            check(result.error_code, result.error_message, needs=needs)
        self._sequences[partition] = sequence + len(records) & SEQUENCE_MASK

    def _new_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        response = self._client.call(None, request)
        check(response.error_code, None, "a producer id", Needs("IDEMPOTENT_WRITE"))
        return ProducerIdentity(response.producer_id, response.producer_epoch)
