"""Writes a shard's records: one batch for each append, either plain or in a producer's transaction.

Source: Kafka's `PartitionWriter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from trimaran.broker.coordination.ports import CoordinatorPartition
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import build_batch
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

R = TypeVar("R")

# Kafka's default `message.max.bytes`: followers with default settings could not replicate a larger batch.
BATCH_BYTES_MAX = 1_048_588

# The codes that clients get for failed appends: Kafka's `CoordinatorOperationExceptionHelper`.
_RESPONSE_CODES = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class PartitionWriter(Generic[R]):
    """The write path of one epoch."""

    def __init__(self, spec: CoordinatorSpec[Any, R], leader: CoordinatorPartition) -> None:
        self._spec = spec
        self._leader = leader

    def append(self, result: Result[R, Any]) -> Offset:
        """Appends the records of a result as one batch; returns the offset of the last one.

        Raises:
            KafkaError: nothing was written; with the code for clients. INVALID_PRODUCER_EPOCH if a newer epoch of the
                producer has written to the partition.
        """
        producer = result.producer
        batch = memoryview(self._encode(result.records, producer))
        try:
            if producer is not None:
                self._leader.log.producers.check_epoch(producer.id, producer.epoch)
            views = [BatchView(batch)]
            return self._leader.append(batch, views, is_awaited=result.is_awaited).last_offset
        except KafkaError as error:
            raise KafkaError(response_code(error.code), error.message) from error

    def _encode(self, records: Sequence[R], producer: Producer | None) -> bytearray:
        at_ms, encode = now_ms(), self._spec.serde.encode
        encoded = (encode(record, at_ms) for record in records)
        if producer is None:
            batch = build_batch(encoded)
        else:
            batch = build_batch(
                encoded,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=0,  # no client reads the sequences of coordinators; Kafka numbers them in this way
                is_transactional=True,
            )
        if len(batch) > BATCH_BYTES_MAX:
            raise KafkaError(response_code(ErrorCode.RECORD_LIST_TOO_LARGE))
        return bytearray(batch)


def response_code(code: ErrorCode) -> ErrorCode:
    """Converts an error code of the log to the code for clients."""
    return _RESPONSE_CODES.get(code, code)
