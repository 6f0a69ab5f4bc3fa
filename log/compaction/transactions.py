"""The transactions that compaction finds in a log: aborted batches, and markers that are no longer needed.

Source: Kafka's `CleanedTransactionMetadata`. A marker is kept until no batch of its transaction remains (T9); an entry
of the transaction index is kept while its marker has batches (T8, KAFKA-13727).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from trimaran.log.batches.batch import BatchView
from trimaran.log.producers.marker import read_end_marker
from trimaran.log.segments.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions of a range; all batches of the range must be passed in order; `aborted` has the aborted
    transactions that overlap it, and possibly others.

    `kept_aborts` are the index entries to write; the writer empties it.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.kept_aborts: list[AbortedTransaction] = []
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()

    def is_unneeded(self, batch: BatchView) -> bool:
        """Whether the records of the next batch may be removed: it belongs to an aborted transaction, or is the marker
        of a transaction without batches.
        """
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            entry = self._coming.popleft()
            if entry.last_offset >= batch.base_offset:  # else it ended before the range
                self._aborted.setdefault(entry.producer_id, entry)
        if batch.is_control:
            return self._ends_nothing(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _ends_nothing(self, batch: BatchView) -> bool:
        if not batch.count:
            return True  # its record was removed in an earlier round
        marker = read_end_marker(batch)
        if marker is None:
            return False
        producer_id = batch.producer_id
        if marker.is_commit:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        entry = self._aborted.pop(producer_id, None)
        had_data = producer_id in self._aborted_with_data
        self._aborted_with_data.discard(producer_id)
        if entry is not None and had_data:
            self.kept_aborts.append(entry)
            return False
        return True
