"""Retention of a batch and of its records, one row for each reason, including the lowest producer id."""

import pytest

from tests.checks import check_each
from tests.log.helpers import batch_bytes, view_of
from trimaran.log.batches.batch import ATTRIBUTES_DELETE_HORIZON, BatchView
from trimaran.log.compaction.retention import Fate, LastRecord, Retention, RetentionDecision
from trimaran.log.compaction.transactions import CleanedTransactions
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.segments.transaction_index import AbortedTransaction

NOW, LATER = 1000, 100


def data(base_offset=0, count=1, producer=-1, *, transactional=False, horizon=None):
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    made = batch_bytes(
        count,
        base_offset=base_offset,
        is_transactional=transactional,
        **(fields if producer >= 0 else {}),
    )
    return with_horizon(view_of(made), horizon)


def with_horizon(batch, horizon):
    if horizon is not None:
        batch.attributes |= ATTRIBUTES_DELETE_HORIZON
        batch.base_timestamp = horizon
    return batch


def marker(base_offset, producer, *, commit, epoch=0, horizon=None):
    made = build_end_marker(
        EndMarker(commit, 0), producer_id=producer, producer_epoch=epoch, timestamp_ms=5
    )
    found = view_of(bytearray(made))
    found.stamp(base_offset, 0)
    return with_horizon(found, horizon)


def retention(last=None, end_offset=100):
    return Retention(NOW, LATER, end_offset, last or {})


def aborts(*spans):
    return CleanedTransactions(AbortedTransaction(*span, span[2] + 1) for span in spans)


BY_KEY, WITHOUT, ALL, NONE = (
    Fate.BY_KEY,
    Fate.BY_KEY_WITHOUT_TOMBSTONES,
    Fate.KEEP_ALL,
    Fate.DROP_ALL,
)
# the batch, the last records of producers, aborted transactions (producer, first, last), the expected result
VERDICTS = [
    (data(), {}, (), (BY_KEY, False, False)),
    (data(horizon=NOW + 1), {}, (), (BY_KEY, False, False)),
    (data(horizon=NOW), {}, (), (WITHOUT, False, False)),
    (data(98, 2), {}, (), (BY_KEY, True, False)),  # the end of the round
    (data(98, 1), {}, (), (BY_KEY, False, False)),
    (data(3, 2, 0), {0: LastRecord(4, 0)}, (), (BY_KEY, True, False)),
    (data(3, 2, 0), {0: LastRecord(5, 0)}, (), (BY_KEY, False, False)),
    (data(3, 2, 0), {1: LastRecord(4, 0)}, (), (BY_KEY, False, False)),
    (data(3, 2), {-1: LastRecord(4, 0)}, (), (BY_KEY, False, False)),
    (data(3, 1, 0), {0: LastRecord(-1, 0)}, (), (BY_KEY, False, False)),
    (data(3, 1, 7, transactional=True), {}, ((7, 3, 9),), (NONE, False, False)),
    (data(3, 1, 7, transactional=True), {7: LastRecord(3, 0)}, ((7, 3, 9),), (NONE, True, False)),
    (data(3, 1, 7, transactional=True), {}, ((8, 3, 9),), (BY_KEY, False, False)),
    (data(3, 1, 7, transactional=True), {}, ((7, 4, 9),), (BY_KEY, False, False)),
    (data(3, 1, 7, transactional=True), {}, ((7, 0, 2),), (BY_KEY, False, False)),
    (data(3, 1, 7), {}, ((7, 3, 9),), (BY_KEY, False, False)),  # outside of the transaction
    (marker(3, 7, commit=True), {}, (), (ALL, False, True)),  # of a transaction without batches
    (marker(3, 7, commit=True, horizon=NOW + 1), {}, (), (ALL, False, False)),
    (marker(3, 7, commit=True, horizon=NOW), {}, (), (NONE, False, False)),
    (marker(3, 7, commit=False), {}, (), (ALL, False, True)),
    (marker(3, 0, commit=True), {0: LastRecord(-1, 0)}, (), (ALL, True, True)),
    (marker(3, 0, commit=True, epoch=1), {0: LastRecord(-1, 0)}, (), (ALL, False, True)),
    (marker(3, 0, commit=True), {0: LastRecord(9, 0)}, (), (ALL, False, True)),
]


def test_batch_is_retained_according_to_reason():
    def is_so(row):
        batch, last, aborted, expected = row
        found = retention(last).verdict(batch, aborts(*aborted))
        assert found == RetentionDecision(*expected), batch

    check_each(VERDICTS, is_so)
    assert retention().delete_horizon_ms == NOW + LATER


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("horizon", [None, NOW])
def test_marker_stays_while_its_transaction_has_batches(commit, horizon):
    """The same producer's next marker does not stay: its transaction has no batches."""
    transactions = aborts() if commit else aborts((7, 3, 4), (7, 5, 5))
    rules = retention()
    rules.verdict(data(3, 1, 7, transactional=True), transactions)
    first = rules.verdict(marker(4, 7, commit=commit, horizon=horizon), transactions)
    second = rules.verdict(marker(5, 7, commit=commit, horizon=horizon), transactions)
    assert first == RetentionDecision(ALL, keeps_empty=False, needs_horizon=False)
    assert second.fate is (ALL if horizon is None else NONE)
    assert second.needs_horizon is (horizon is None)
    kept = [] if commit else [AbortedTransaction(7, 3, 4, 5)]
    assert transactions.kept_aborts == kept


def test_marker_without_record_ends_nothing():
    empty: BatchView = marker(3, 7, commit=True, horizon=NOW)
    empty.count = 0
    assert retention().verdict(empty, aborts()).fate is NONE
    empty.base_timestamp = NOW + 1
    assert retention().verdict(empty, aborts()) == RetentionDecision(ALL, False, False)
    fresh = marker(3, 7, commit=True)
    fresh.count = 0
    assert not retention().verdict(fresh, aborts()).needs_horizon
