"""The decisions of compaction about batches and their records.

Source: `Cleaner.cleanInto`, `MemoryRecords.filterTo` of Kafka, KIP-534 (delete horizon). A tombstone, and the marker of
a transaction without batches, gets a delete horizon (now + `delete.retention.ms`) when it is first met, and is removed
after that time: a consumer with a smaller lag has seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.compaction.transactions import CleanedTransactions
from trimaran.wire.identity import Offset, ProducerEpoch, ProducerId


class Fate(IntEnum):
    """The fate of the records of a batch; the first three are the `fates` of `OffsetMap.mark`."""

    BY_KEY = 0
    BY_KEY_WITHOUT_TOMBSTONES = 1
    KEEP_ALL = 2
    DROP_ALL = 3


class LastRecord(NamedTuple):
    """The state of a producer: the last offset of its newest data batch (-1: its epoch has none), and its epoch."""

    data_offset: Offset
    epoch: ProducerEpoch


class RetentionDecision(NamedTuple):
    fate: Fate
    keeps_empty: bool  # the header is kept even if no record is kept
    needs_horizon: bool  # a marker of a transaction without batches, met for the first time


@dataclass(frozen=True, slots=True)
class Retention:
    """The rules of a round. `last_records` is keyed by producer id; `end_offset` is the end offset of the round."""

    now_ms: int
    delete_retention_ms: int
    end_offset: Offset
    last_records: Mapping[ProducerId, LastRecord]

    @property
    def delete_horizon_ms(self) -> int:
        """Returns the delete horizon that batches get in this round."""
        return self.now_ms + self.delete_retention_ms

    def verdict(self, batch: BatchView, transactions: CleanedTransactions) -> RetentionDecision:
        """Returns the decision about a batch; must be called for all batches in order."""
        unneeded = transactions.is_unneeded(batch)
        horizon = batch.delete_horizon_ms
        keeps_empty = self._is_last_of_producer(batch) or batch.next_offset == self.end_offset
        is_over = horizon is not None and horizon <= self.now_ms
        if batch.is_control:
            goes = unneeded and is_over
            needs_horizon = unneeded and horizon is None and batch.count > 0
            return RetentionDecision(
                Fate.DROP_ALL if goes else Fate.KEEP_ALL, keeps_empty, needs_horizon
            )
        if unneeded:
            return RetentionDecision(Fate.DROP_ALL, keeps_empty, needs_horizon=False)
        fate = Fate.BY_KEY_WITHOUT_TOMBSTONES if is_over else Fate.BY_KEY
        return RetentionDecision(fate, keeps_empty, needs_horizon=False)

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        """Whether this batch must be kept because it carries the producer's last sequence (or, without data, its epoch)
        (I3).
        """
        last = self.last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.data_offset >= 0:
            return batch.last_offset == last.data_offset
        return batch.is_control and batch.producer_epoch == last.epoch
