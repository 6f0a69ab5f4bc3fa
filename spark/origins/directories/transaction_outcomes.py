"""Outcomes of producers' transactions: the first marker after a batch decides.

A log contains a batch of a transaction only while it contains the marker (compaction keeps markers for that), so a
reader of any part of a log can look ahead and does not need earlier batches: trimmed logs and any split give the same
result. The transaction index is not trusted: it may be missing or belong to another log. Source: KIP-98, Kafka's
`CleanedTransactionMetadata`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

from trimaran.log.batches.batch import BatchView
from trimaran.log.producers.marker import read_end_marker
from trimaran.spark.origins.origin import DataUnreadable, Located
from trimaran.wire.identity import Offset, ProducerId

# Yields all batches of the log from a segment (by base offset) and a position in it.
ScanOn = Callable[[Offset, int], Iterator[Located]]


class Outcomes:
    """Outcomes of the transactions in one range of a log; batches are passed in the order of offsets."""

    def __init__(self, scan_on: ScanOn) -> None:
        self._scan_on = scan_on
        self._ahead: Iterator[Located] | None = None
        self._markers: dict[ProducerId, deque[tuple[Offset, bool]]] = defaultdict(deque)

    def is_aborted(self, located: Located, base_offset: Offset, name: str) -> bool:
        """True if the batch, in the segment `base_offset`, belongs to an aborted transaction.

        Raises:
            DataUnreadable: the log ends before the transaction does.
        """
        batch = located.batch
        if not batch.is_transactional or not batch.count:  # compaction leaves empty batches
            return False
        if self._ahead is None:
            self._ahead = self._scan_on(base_offset, located.position)
        markers = self._markers[batch.producer_id]
        while markers and markers[0][0] < batch.base_offset:
            markers.popleft()
        while not markers:
            self._search_ahead(batch, name)
        return not markers[0][1]

    def _search_ahead(self, batch: BatchView, name: str) -> None:
        assert self._ahead is not None
        for located in self._ahead:
            ahead = located.batch
            marker = read_end_marker(ahead) if ahead.is_control else None
            if marker is not None:
                self._markers[ahead.producer_id].append((ahead.base_offset, marker.is_commit))
                return
        raise DataUnreadable(
            f"{name}: the transaction of producer {batch.producer_id} at offset {batch.base_offset} has no end in this "
            "log; kafka.isolation.level=read_uncommitted reads it"
        )


class UndecidedTransactions:
    """Takes the batches of a log in order and finds the first offset of the transactions that are still open."""

    def __init__(self, begun: Iterable[tuple[ProducerId, Offset]] = ()) -> None:
        """`begun` has (producer id, first offset) of the transactions that are open before the first batch."""
        self._first_offsets = dict(begun)

    def add(self, batch: BatchView) -> None:
        if not batch.is_control:
            if batch.is_transactional:
                self._first_offsets.setdefault(batch.producer_id, batch.base_offset)
        elif read_end_marker(batch) is not None:
            self._first_offsets.pop(batch.producer_id, None)

    def last_stable(self, high_watermark: Offset) -> Offset:
        """Returns the last stable offset: below it no transaction is open."""
        return min(self._first_offsets.values(), default=high_watermark)
