"""Waiting for the end of a transaction, the state of a loaded shard, and what a closed one leaves."""

from __future__ import annotations

import pytest

from tests.checks import check_each
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.records import TransactionRecord
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import Transaction, TransactionState

S = TransactionState
PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)
AT = Instant(100.0, 1_000_000)


def transaction(state):
    return Transaction(7, 1, 60_000, state)


@pytest.fixture
def shard():
    shard = TransactionCoordinatorShard(TransactionLimits())
    shard.loaded(AT)
    shard.take()
    return shard


def become(shard, name, state):
    shard.replay(0, TransactionRecord(name, None if state is None else transaction(state)))


def notified_waiters(shard):
    return [token for token, said in shard.take().responses if said is True]


def test_waiter_wakes_when_nothing_is_ending(shard):
    for state in (None, *S):
        become(shard, "x", state)
        shard.await_end("x", "now")
        assert notified_waiters(shard) == ([] if state in PREPARED else ["now"])
        become(shard, "x", None)
        shard.take()


def test_no_client_awaits_the_completion_record(shard):
    become(shard, "x", S.PREPARE_COMMIT)
    ended = shard.complete("x", shard.decided("x"), AT)
    assert (len(ended.records), ended.is_awaited) == (1, False)


def test_waiters_learn_end_of_own_transaction_once(shard):
    for state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT, None):
        for name in "xy":
            become(shard, name, S.PREPARE_COMMIT)
        for name, token in (("x", "first"), ("x", "second"), ("y", "other")):
            shard.await_end(name, token)
        become(shard, "x", S.PREPARE_COMMIT)
        assert notified_waiters(shard) == []
        become(shard, "x", state)
        assert notified_waiters(shard) == ["first", "second"]
        become(shard, "x", state)
        assert notified_waiters(shard) == []
        become(shard, "y", state)
        assert notified_waiters(shard) == ["other"]


def test_departed_waiter_is_not_notified(shard):
    become(shard, "x", S.PREPARE_COMMIT)
    for token in ("first", "second"):
        shard.await_end("x", token)
    for token in ("first", "first", "stranger"):
        shard.forget_waiting("x", token)
    shard.forget_waiting("y", "first")
    become(shard, "x", S.COMPLETE_COMMIT)
    assert notified_waiters(shard) == ["second"]
    become(shard, "x", S.PREPARE_ABORT)
    shard.await_end("x", "third")
    shard.forget_waiting("x", "third")
    assert not shard._waiting, "nothing is kept of ids for which nobody waits"


def test_all_waiters_wake_when_epoch_ends(shard):
    for name in "xy":
        become(shard, name, S.PREPARE_ABORT)
        for token in (f"{name}1", f"{name}2"):
            shard.await_end(name, token)
    shard.close(AT)
    assert notified_waiters(shard) == ["x1", "x2", "y1", "y2"]
    become(shard, "x", S.COMPLETE_ABORT)
    assert notified_waiters(shard) == []


def test_markers_are_due_once_per_decision():
    shard = TransactionCoordinatorShard(TransactionLimits())
    for name, states in (
        ("done", (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)),
        ("commits", (S.ONGOING, S.PREPARE_COMMIT)),
        ("aborts", (S.PREPARE_ABORT,)),
        ("open", (S.ONGOING,)),
        ("gone", (S.PREPARE_ABORT, None)),
    ):
        for state in states:
            become(shard, name, state)
    assert shard.take().follow_ups == []
    shard.loaded(AT)
    assert shard.take().follow_ups == ["commits", "aborts"]
    become(shard, "open", S.PREPARE_COMMIT)
    assert shard.take().follow_ups == ["open"]
    become(shard, "open", S.COMPLETE_COMMIT)
    assert shard.take().follow_ups == []


def test_only_decided_transactions_have_markers(shard):
    def check(state):
        become(shard, "x", state)
        found = shard.decided("x")
        assert found == (transaction(state) if state in PREPARED else None)

    check_each((None, *S), check)


def test_decided_transaction_is_completed_once(shard):
    become(shard, "x", S.PREPARE_COMMIT)
    decided = shard.decided("x")
    become(shard, "x", S.PREPARE_COMMIT)
    late = shard.complete("x", decided, AT)
    assert (late.records, late.response) == ((), None)
    assert shard.complete("y", decided, AT).records == ()
    (record,) = shard.complete("x", shard.decided("x"), AT).records
    assert record.transactional_id == "x"
    assert (record.transaction.state, record.transaction.updated_ms) == (
        S.COMPLETE_COMMIT,
        1_000_000,
    )


def test_loaded_shard_checks_timeouts_then_expiry():
    limits = TransactionLimits(abort_interval_ms=3_000, expiry_interval_ms=7_000)
    shard = TransactionCoordinatorShard(limits)
    assert shard.deadline() is None
    shard.loaded(AT)
    due = []
    while len(due) < 5:
        due.append(shard.deadline())
        shard.handle_timeout(Instant(due[-1], 0))
    assert due == [100, 103, 106, 107, 109]


def test_unloading_leaves_no_timers_or_waiters(shard):
    for name in "xyz":
        become(shard, name, S.EMPTY)
    shard.unload()
    assert shard.transactions == {}


def test_timeout_sweep_covers_only_open_transactions(shard):
    for state in (*S, None):
        become(shard, "x", S.ONGOING)
        assert list(shard._open) == ["x"]
        become(shard, "x", state)
        assert list(shard._open) == (["x"] if state is S.ONGOING else [])
