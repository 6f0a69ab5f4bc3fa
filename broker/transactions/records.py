"""Records of `__transaction_state`, as Kafka writes and reads them.

Source: Kafka's `TransactionLog`. Values have version 1 from `transaction.version` 1 on, else version 0, which lacks
previous and next producer ids and the client's version.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker.transactions.transaction import (
    FLEXIBLE_RECORDS_VERSION,
    Transaction,
    TransactionState,
)
from trimaran.log.batches.records import NewRecord
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_PREFIX = struct.Struct(">h")
_KEY_TYPE = 0
_KNOWN_STATES = frozenset(TransactionState)


class TransactionRecord(NamedTuple):
    """A transactional id and its new state, which is None if the id is removed."""

    transactional_id: str
    transaction: Transaction | None


@dataclass(frozen=True, slots=True, eq=False)
class TransactionWrite:
    """A write of the shard itself, without a request: the abort of timed-out transactions, or the removal of expired
    ids.
    """

    records: Sequence[TransactionRecord]
    atomic: bool = False


class TransactionRecordSerde:
    """A `RecordSerde`. `version` returns the cluster's level of `transaction.version`."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version

    def encode(self, record: TransactionRecord, now_ms: int) -> NewRecord:
        key = TransactionLogKey(transactional_id=record.transactional_id)
        is_flexible = self._version() >= FLEXIBLE_RECORDS_VERSION
        value = None
        if record.transaction is not None:
            value = _encode_value(record.transaction, int(is_flexible))
        return NewRecord(_PREFIX.pack(_KEY_TYPE) + key.encode(0), value, now_ms)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        if _prefix(key) != _KEY_TYPE:
            return None
        transactional_id = TransactionLogKey.decode(key[_PREFIX.size :], 0).transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        decoded = TransactionLogValue.decode(value[_PREFIX.size :], _prefix(value))
        return TransactionRecord(transactional_id, _transaction(decoded))


def _encode_value(transaction: Transaction, version: int) -> bytes:
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_written_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_epoch
        value.client_transaction_version = transaction.client_version
    return _PREFIX.pack(version) + value.encode(version)


def _written_partitions(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    by_topic = partitions_by_topic(transaction.partitions)
    return [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in by_topic.items()]


def partitions_by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """Returns the partition indexes by topic, both sorted."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        found[topic].append(index)
    return found


def _transaction(value: TransactionLogValue) -> Transaction:
    if value.transaction_status not in _KNOWN_STATES:
        raise RemoteProtocolError(f"a transaction in the unknown state {value.transaction_status}")
    return Transaction(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(transaction_partition.topic, index)
            for transaction_partition in value.transaction_partitions or ()
            for index in transaction_partition.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_epoch=value.next_producer_epoch,
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise RemoteProtocolError("a record of a transaction is too short for its version")
    return int(_PREFIX.unpack_from(data)[0])
