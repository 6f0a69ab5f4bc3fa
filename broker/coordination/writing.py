"""Writes a shard's records: one batch for each append, either plain or in a producer's transaction.

Source: Kafka's `PartitionWriter`, and `CoordinatorRuntime.append` for the sizes of batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from trimaran.broker.coordination.ports import CoordinatorPartition
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.log.batches.batch import HEADER_BYTES, BatchView
from trimaran.log.batches.records import build_batch
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

R = TypeVar("R")

# The most bytes of a record besides its key and its value: five sizes and counts, a time, and the attributes.
RECORD_OVERHEAD_MAX = 32

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

    def parts(self, records: Sequence[R]) -> Iterator[Sequence[R]]:
        """Yields the records, in order, in as few parts as fit in one batch each. A record that is too large for any
        batch is a part of its own, which `append` refuses.
        """
        at_ms, encode, size_max = now_ms(), self._spec.serde.encode, self._batch_bytes_max
        begin, size = 0, HEADER_BYTES
        for number, record in enumerate(records):
            key, value, *_ = encode(record, at_ms)
            more = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_MAX
            if size + more > size_max and number > begin:
                yield records[begin:number]
                begin, size = number, HEADER_BYTES
            size += more
        yield records[begin:]

    @property
    def _batch_bytes_max(self) -> int:
        """The topic's limit; the smallest `segment.bytes` is less than the default of `max.message.bytes`."""
        config = self._leader.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def append(self, result: Result[R, Any]) -> Offset:
        """Appends the records of a result as one batch; returns the offset of the last one.

        Raises:
            KafkaError: with the code for clients; nothing was written. INVALID_PRODUCER_EPOCH if a newer epoch of the
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
        if len(batch) > self._batch_bytes_max:
            raise KafkaError(response_code(ErrorCode.RECORD_LIST_TOO_LARGE))
        return bytearray(batch)


def response_code(code: ErrorCode) -> ErrorCode:
    """Converts an error code of the log to the code for clients."""
    return _RESPONSE_CODES.get(code, code)
