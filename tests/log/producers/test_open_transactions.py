"""The open transaction of a producer: when it is open, and the entry that its abort leaves in the index."""

from __future__ import annotations

import pytest

from tests.log.helpers import batch_bytes, view_of
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.state import CompletedTransaction, ProducerState
from trimaran.log.segments.transaction_index import AbortedTransaction


def batch(producer_id, offset, *, epoch=0, is_transactional=True):
    return view_of(
        batch_bytes(
            2,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            base_offset=offset,
            is_transactional=is_transactional,
        )
    )


def marker(producer_id, offset, *, is_commit=False, epoch=0):
    view = view_of(
        build_end_marker(
            EndMarker(is_commit, 0), producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1
        )
    )
    view.base_offset = offset
    return view


@pytest.fixture
def state():
    """Returns open transactions of producers 0 and 8, from offsets 0 and 2 on, and producer 9 without one."""
    state = ProducerState()
    for view in (batch(0, 0), batch(8, 2), batch(9, 4, is_transactional=False)):
        assert state.update(view) is None
    return state


def test_transaction_is_open_until_its_marker(state):
    def is_open(producer_id, epoch=0):
        return state.in_transaction(producer_id, epoch)

    assert [is_open(0), is_open(8), is_open(9), is_open(7)] == [True, True, False, False]
    assert (is_open(0, 1), is_open(0, -1)) == (False, False)
    assert state.first_unstable_offset == 0
    assert state.update(marker(0, 6)) == CompletedTransaction(0, 0, 6, True)
    assert [is_open(0), is_open(8)] == [False, True]
    assert state.first_unstable_offset == 2
    assert state.update(marker(8, 7, is_commit=True)) == CompletedTransaction(8, 2, 7, False)
    assert (is_open(8), state.first_unstable_offset) == (False, None)
    assert state.update(marker(8, 8)) is None


def test_later_batches_do_not_begin_the_transaction_again(state):
    state.update(batch(0, 6))
    assert state.get(0).transaction_start == 0
    assert state.update(marker(0, 8)) == CompletedTransaction(0, 0, 8, True)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (marker(0, 6), AbortedTransaction(0, 0, 6, 2)),
        (marker(8, 6), AbortedTransaction(8, 2, 6, 0)),
        (marker(0, 6, is_commit=True), None),
        (marker(9, 6), None),
        (marker(7, 6), None),
        (batch(0, 6), None),
    ],
)
def test_only_aborts_of_data_are_indexed(state, view, expected):
    assert state.aborted_by(view) == expected
    state.update(view)


def test_abort_without_data_is_stable_after_marker(state):
    state.update(marker(8, 6))
    assert state.aborted_by(marker(0, 7)) == AbortedTransaction(0, 0, 7, 8)
