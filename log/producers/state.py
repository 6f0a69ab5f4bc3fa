"""Producer state of a partition: the sequences by which idempotence distinguishes duplicates from gaps, and the open
transactions (KIP-98, KIP-360).

Source: Kafka's `ProducerStateManager`, `ProducerAppendInfo`. The state is a function of the log's batch headers and
transaction markers; only the removal of idle producers also changes it. A leader's verifications with coordinators are
kept separately (`Verifications`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.producers.entry import NO_TRANSACTION, Duplicate, ProducerEntry
from trimaran.log.producers.marker import EndMarker, read_end_marker
from trimaran.log.producers.transactions import OpenTransactions
from trimaran.log.producers.verifications import Verifications
from trimaran.log.segments.transaction_index import AbortedTransaction
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, ProducerEpoch, ProducerId

PRODUCERS_MAX = 100_000  # about 60 MiB; the longest idle producers are removed first, as if their ids had expired
# Producers that are checked to find an idle one. If all of these are in transactions, the bound is exceeded by one.
_LOOKED_AT = 100
EPOCH_MAX = (1 << 15) - 1
# From this `transaction.version` on a marker has its own epoch (KIP-890).
BUMPING_TRANSACTION_VERSION = 2


class CompletedTransaction(NamedTuple):
    """A transaction with data here whose marker, at `last_offset`, was just read."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class ProducerState:
    """The producers of one partition up to `end_offset`, the longest idle first."""

    def __init__(self, end_offset: Offset = Offset(0)) -> None:
        self.end_offset = end_offset
        self._producers: dict[ProducerId, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self._verifications = Verifications()
        # Called with a producer id and its entry, before the entry changes.
        self.before_change: Callable[[ProducerId, ProducerEntry], object] | None = None

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: ProducerId) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def entries(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        """Returns (producer id, entry) pairs, the longest idle first."""
        return iter(self._producers.items())

    @classmethod
    def of_entries(
        cls, end_offset: Offset, entries: list[tuple[ProducerId, ProducerEntry]]
    ) -> ProducerState:
        """Returns the state from the entries of a snapshot, the longest idle first."""
        state = cls(end_offset)
        state._producers.update(entries)
        begun = [(e.transaction_start, producer_id) for producer_id, e in entries]
        for first_offset, producer_id in sorted(begun):
            if first_offset != NO_TRANSACTION:
                state.transactions.begin(producer_id, first_offset)
        return state

    # Checks by the leader

    def validate(self, view: BatchView) -> Duplicate | None:
        """Checks whether a client's batch may be appended next; returns the duplicate, which is answered with its first
        offset.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH: a newer epoch wrote here; OUT_OF_ORDER_SEQUENCE_NUMBER: a batch is
                missing before this one (or it is a duplicate older than the last five), or according to the
                verification with the coordinator; INVALID_TXN_STATE: the batch is not transactional, but a transaction
                of the producer is open.
        """
        entry = self._producers.get(view.producer_id) if view.producer_id >= 0 else None
        if entry is None:
            # The producer is unknown, expired, or was removed by retention: any sequence is valid, except after a
            # verification.
            self._verifications.check(view, is_new=True)
            return None
        if view.producer_epoch == entry.epoch and view.base_sequence >= 0:
            duplicate = entry.find_duplicate(view)
            if duplicate is not None:
                return duplicate
        if view.producer_epoch < entry.epoch:
            raise _fenced(view.producer_id, view.producer_epoch, entry.epoch)
        if view.base_sequence >= 0:  # coordinators write without sequences
            self._verifications.check(view, is_new=not entry.batches)
            expected = entry.expected_sequence(view)
            if view.base_sequence != expected:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {view.producer_id} sent sequence {view.base_sequence}, {expected} is next",
                )
        if entry.transaction_start != NO_TRANSACTION and not view.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {view.producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def verifying(self, view: BatchView, *, has_own_epoch: bool) -> None:
        """Notes that the coordinator of the transaction of `view` is being queried; `has_own_epoch` as in
        `Verification`.
        """
        self._verifications.begin(view, has_own_epoch=has_own_epoch)

    def check_epoch(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Checks whether a coordinator may write in a transaction of this producer: sequences are not checked.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH: a newer epoch wrote here.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            raise _fenced(producer_id, producer_epoch, entry.epoch)

    def in_transaction(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Whether the producer has an open transaction here in this epoch, so that its coordinator has registered the
        partition.
        """
        entry = self._producers.get(producer_id)
        return (
            entry is not None
            and entry.transaction_start != NO_TRANSACTION
            and entry.epoch == producer_epoch
        )

    def ended_since(self, producer_id: ProducerId, offset: Offset) -> bool:
        """Whether a marker of the producer was appended at `offset` or later: an earlier answer of its coordinator
        about the transaction is then outdated (KIP-890).
        """
        entry = self._producers.get(producer_id)
        return entry is not None and entry.marker_offset >= offset

    def check_marker(
        self,
        marker: EndMarker,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        transaction_version: int,
    ) -> None:
        """Checks whether a coordinator's marker may be appended.

        Up to transaction version 1 a marker has the epoch of its transaction; from version 2 on it has a higher one, so
        that a late marker cannot end the next transaction (KIP-890). The same marker without an open transaction is a
        harmless retry.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH; TRANSACTION_COORDINATOR_FENCED: a newer coordinator wrote a marker of
                this producer.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        bumps = transaction_version >= BUMPING_TRANSACTION_VERSION
        nothing_open = entry.transaction_start == NO_TRANSACTION
        is_retry = producer_epoch == entry.epoch and (nothing_open or producer_epoch == EPOCH_MAX)
        if producer_epoch < entry.epoch or (
            bumps and producer_epoch == entry.epoch and not is_retry
        ):
            raise _fenced(producer_id, producer_epoch, entry.epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} for producer {producer_id}, {entry.coordinator_epoch} "
                f"wrote here",
            )

    # Following the log

    def update(self, view: BatchView) -> CompletedTransaction | None:
        """Updates the state for an appended batch, which must be whole if it is a control batch of a producer."""
        self.end_offset = view.next_offset
        if view.producer_id < 0:
            return None
        if view.is_control:
            marker = read_end_marker(view)
            if marker is not None:
                return self._end_transaction(view, marker)
            if not view.count:
                self._follow_emptied(view)
            return None
        entry = self._entered(view)
        entry.add(view)
        if view.is_transactional and entry.transaction_start == NO_TRANSACTION:
            entry.transaction_start = view.base_offset
            self.transactions.begin(view.producer_id, view.base_offset)
        return None

    def _follow_emptied(self, view: BatchView) -> None:
        """Follows the empty header of a marker, which compaction keeps for its epoch (I3) and which Kafka ignores. It
        does not show how an open transaction has ended.
        """
        entry = self._producers.get(view.producer_id)
        if entry is None or entry.transaction_start == NO_TRANSACTION:
            self._entered(view)

    def _entered(self, view: BatchView) -> ProducerEntry:
        """Returns the producer's entry in the batch's epoch; moves it to the end, as the most recently used."""
        entry = self._producers.pop(view.producer_id, None)
        if entry is None:
            entry = ProducerEntry()
            if len(self._producers) >= PRODUCERS_MAX:
                self._forget_longest_idle()
        elif self.before_change is not None:
            self.before_change(view.producer_id, entry)
        self._producers[view.producer_id] = entry
        self._verifications.end(view.producer_id)
        entry.enter_epoch(view.producer_epoch)
        entry.last_timestamp = view.max_timestamp
        return entry

    def _end_transaction(self, view: BatchView, marker: EndMarker) -> CompletedTransaction | None:
        entry = self._entered(view)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.marker_offset = view.last_offset
        first_offset, entry.transaction_start = entry.transaction_start, NO_TRANSACTION
        if first_offset == NO_TRANSACTION:
            return None  # there is no data here, so there is nothing to hold back or to skip
        self.transactions.end(view.producer_id, view.last_offset)
        return CompletedTransaction(
            view.producer_id, first_offset, view.last_offset, not marker.is_commit
        )

    def aborted_by(self, view: BatchView) -> AbortedTransaction | None:
        """Returns the entry for the transaction index that `view` requires; it is written before `update`
        (KAFKA-7866).
        """
        entry = self._producers.get(view.producer_id) if view.is_control else None
        if entry is None or entry.transaction_start == NO_TRANSACTION:
            return None
        marker = read_end_marker(view)
        if marker is None or marker.is_commit:
            return None
        next_open = self.transactions.first_open_offset(without=view.producer_id)
        return AbortedTransaction(
            view.producer_id,
            entry.transaction_start,
            view.last_offset,
            view.next_offset if next_open is None else next_open,
        )

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Returns the first offset of the oldest open transaction."""
        return self.transactions.first_open_offset()

    # Removal

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Removes producers idle for `expiration_ms`, except in an open transaction."""
        for producer_id, entry in list(self._producers.items()):
            is_idle = now_ms - entry.last_timestamp >= expiration_ms
            if is_idle and entry.transaction_start == NO_TRANSACTION:
                del self._producers[producer_id]

    def _forget_longest_idle(self) -> None:
        """Makes room for one more producer. A producer in a transaction is not idle: it moves to the end of the
        order.
        """
        for producer_id, entry in list(islice(self._producers.items(), _LOOKED_AT)):
            if len(self._producers) < PRODUCERS_MAX:
                return
            del self._producers[producer_id]
            if entry.transaction_start != NO_TRANSACTION:
                self._producers[producer_id] = entry


def _fenced(producer_id: ProducerId, epoch: ProducerEpoch, current: ProducerEpoch) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {current} here, not {epoch}",
    )
