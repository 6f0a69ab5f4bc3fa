"""The data of one transactional id: its producer, its state, and the partitions of its transaction. No rules.

Source: Kafka's `TransactionMetadata`, `TransactionState` (KIP-98, KIP-890). Not implemented: the states Dead and
PrepareEpochFence, which Kafka never writes: an expired id becomes a tombstone, and the record that begins the abort
also fences the producer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.identity import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

EPOCH_MAX = (1 << 15) - 1
# The last epoch that a producer gets: one more epoch is needed to fence it.
PRODUCER_EPOCH_MAX = EPOCH_MAX - 1

# Levels of the feature `transaction.version`.
FLEXIBLE_RECORDS_VERSION = 1
EPOCH_BUMP_VERSION = 2  # each end of a transaction bumps the epoch (KIP-890)


class TransactionState(IntEnum):
    """The state of a transaction; the values are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """The name in Kafka's protocol, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is decided, and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transaction(NamedTuple):
    """The state of a transactional id, as in its last record.

    ```
    from                          to                event
    (none), Empty, Complete*      Empty             InitProducerId
    Empty, Complete*, Ongoing     Ongoing           partitions are added
    Ongoing                       PrepareCommit     EndTxn
    Ongoing                       PrepareAbort      EndTxn, timeout, InitProducerId of another producer
    Empty, Complete*              PrepareAbort      EndTxn of version 2, before anything was added
    Prepare*                      Complete*         all markers are written
    ```

    Args:
        last_epoch: the previous epoch, with which the producer may repeat a request whose response it did not get; it
        is not written, and therefore unknown after the id has been loaded. previous_producer_id: the producer id of the
        previous record. next_producer_id: the new producer id when the epochs of the current one are used up; valid
        from Complete* on. started_ms, updated_ms: wall clock. client_version: the client's level of
        `transaction.version`.
    """

    producer_id: ProducerId
    epoch: ProducerEpoch
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    next_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = 0

    @property
    def epochs_used_up(self) -> bool:
        return self.epoch >= PRODUCER_EPOCH_MAX

    @property
    def response_producer(self) -> Producer:
        """The producer after the end of its transaction, as returned by EndTxn."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, ProducerEpoch(0))
        return Producer(self.producer_id, self.epoch)
