"""The state of one producer id in a partition: its epoch, its last batches, its open transaction.

Source: Kafka's `ProducerStateEntry`, `BatchMetadata`.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from trimaran.log.batches.batch import SEQUENCE_SPACE, BatchView
from trimaran.wire.identity import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    Offset,
    ProducerEpoch,
)

# A producer has at most five requests in flight (max.in.flight.requests.per.connection).
BATCHES_KEPT = 5
NO_TRANSACTION = NO_OFFSET


class Duplicate(NamedTuple):
    """A batch that the log already contains: its offsets and its timestamp."""

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class KeptBatch(NamedTuple):
    """The part of a batch that is kept to detect duplicates."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class ProducerEntry:
    """The state of a producer.

    `batches` are those of `epoch`, oldest first; `coordinator_epoch` is that of the last marker, -1 before the first.
    `marker_offset` is the offset of the last marker seen by this entry (snapshots do not contain it).
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "marker_offset",
        "transaction_start",
    )

    def __init__(self, epoch: ProducerEpoch = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[KeptBatch] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.marker_offset = NO_OFFSET
        self.transaction_start = NO_TRANSACTION

    @property
    def last_data_offset(self) -> Offset:
        """Returns the offset of the newest data batch of this epoch; -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def enter_epoch(self, epoch: ProducerEpoch) -> None:
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches.clear()

    def add(self, batch: BatchView) -> None:
        self.batches.append(
            KeptBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
            )
        )

    def find_duplicate(self, batch: BatchView) -> Duplicate | None:
        """Returns the kept batch with exactly the sequences of `batch`, which has this epoch."""
        for kept in self.batches:
            if (
                kept.first_sequence == batch.base_sequence
                and kept.last_sequence == batch.last_sequence
            ):
                return Duplicate(kept.base_offset, kept.last_offset, kept.timestamp_ms)
        return None

    def expected_sequence(self, batch: BatchView) -> int:
        """Returns the sequence that `batch` must have to be the next one; returns its own sequence if any sequence is
        valid.
        """
        if batch.producer_epoch != self.epoch:  # a new epoch begins at 0 (KIP-360)
            return 0 if self.epoch != NO_PRODUCER_EPOCH else batch.base_sequence
        if self.batches:
            return (self.batches[-1].last_sequence + 1) % SEQUENCE_SPACE
        return 0  # a transaction marker began the epoch
