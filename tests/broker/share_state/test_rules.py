"""Entries of states after records: updates with and without a snapshot before them, and snapshots."""

from __future__ import annotations

import pytest

from trimaran.broker.share_state.records import StoredState, UpdateRecord
from trimaran.broker.share_state.rules import (
    StateEntry,
    after_snapshot,
    after_update,
    again,
    snapshot,
)
from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.identity import SharePartitionKey

KEY = SharePartitionKey("g", b"topic-id-of-t---", 1)
STATE = StoredState(4, 7, 9, 100, 3, (StateBatch(100, 109, 2, 1),), created_ms=50, written_ms=60)
ENTRY = StateEntry(STATE, 11, 8, 5, 70)


def update(leader_epoch=-1, start_offset=-1, count=6):
    return UpdateRecord(KEY, 4, leader_epoch, start_offset, count, (StateBatch(110, 119, 0, 1),))


def test_update_without_a_snapshot_makes_a_state():
    expected = StoredState(
        4, 0, 2, 105, 6, (StateBatch(110, 119, 0, 1),), created_ms=0, written_ms=0
    )
    found = after_update(None, update(2, 105), 77)
    assert found == StateEntry(expected, 2, 0, 1, 77)
    assert not found.is_cold
    plain = after_update(None, update(), 78)
    assert plain == StateEntry(expected._replace(leader_epoch=-1, start_offset=-1), -1, 0, 1, 78)


def test_update_changes_only_the_fields_it_has():
    batches = (StateBatch(100, 109, 2, 1), StateBatch(110, 119, 0, 1))
    told = STATE._replace(delivery_complete_count=6, batches=batches)
    assert after_update(ENTRY, update(), 77) == StateEntry(told, 11, 8, 6, 70)
    moved = told._replace(leader_epoch=12, start_offset=110, batches=batches[1:])
    assert after_update(ENTRY, update(12, 110), 77) == StateEntry(moved, 12, 8, 6, 70)
    assert after_update(ENTRY, update(12, 110), 77, STATE) == StateEntry(STATE, 12, 8, 6, 70)


@pytest.mark.parametrize(("updates_max", "updates"), [(6, 5), (5, 0), (4, 0)])
def test_snapshot_resets_the_count_only_at_maximum(updates_max, updates):
    lower = STATE._replace(leader_epoch=1, state_epoch=2)
    assert after_snapshot(None, lower, 77, updates_max) == StateEntry(lower, 1, 2, 0, 77)
    assert after_snapshot(ENTRY, lower, 77, updates_max) == StateEntry(lower, 11, 8, updates, 77)
    higher = STATE._replace(leader_epoch=12, state_epoch=9)
    assert after_snapshot(ENTRY, higher, 77, updates_max) == StateEntry(higher, 12, 9, updates, 77)


def test_new_snapshots_have_their_times():
    assert again(STATE, 90) == STATE._replace(snapshot_epoch=5, written_ms=90)
    assert snapshot(STATE, 90) == STATE._replace(snapshot_epoch=5, created_ms=90, written_ms=90)


def test_batches_of_foreign_snapshots_are_ordered():
    low, high = StateBatch(100, 109, 2, 1), StateBatch(110, 119, 0, 1)
    state = STATE._replace(batches=(high, low))
    assert after_snapshot(None, state, 77, 5).state.batches == (low, high)
    assert after_snapshot(None, state, 77, 5, is_ordered=True).state.batches == (high, low)
