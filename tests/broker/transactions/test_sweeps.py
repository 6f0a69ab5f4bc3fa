"""Thousands of transactions that time out, or ids that expire, together: some in each turn, all in one sweep."""

import pytest

from tests.broker.transactions.driver import WALL_CLOCK_MS, Driver
from trimaran.broker.transactions import shard as shards
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.records import TransactionRecord
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.identity import TopicPartition

S = TransactionState
COUNT = 60
PER_TURN = 7
LIMITS = TransactionLimits()


@pytest.fixture
def driver(monkeypatch):
    for limit in ("ABORTED_PER_STEP", "EXPIRED_PER_STEP"):
        monkeypatch.setattr(shards, limit, PER_TURN)
    monkeypatch.setattr(shards, "LOOKED_AT_PER_STEP", 10)
    return Driver()


def name_of(number):
    return f"id-{number}"


def fill(driver, state):
    for number in range(COUNT):
        transaction = Transaction(
            number,
            0,
            60_000,
            state,
            frozenset({TopicPartition("t", 0)}) if state is S.ONGOING else frozenset(),
            started_ms=WALL_CLOCK_MS,
            updated_ms=WALL_CLOCK_MS,
        )
        driver.append([TransactionRecord(name_of(number), transaction)])


def states(driver):
    return [transaction.state for transaction in driver.shard.transactions.values()]


def turn(driver):
    """Runs one call of the runtime; returns how many records it wrote."""
    before = len(driver.log)
    driver.shard.handle_timeout(driver.at)
    driver.settle()
    return len(driver.log) - before


def sweep(driver, seconds):
    """Runs all turns of what is due then; returns the number of records of each."""
    driver.now = seconds
    turns = []
    while driver.shard.deadline() <= driver.now:
        turns.append(turn(driver))
        assert len(turns) <= COUNT, "the sweep comes to no end"
    return turns


def test_simultaneous_timeouts_are_aborted_in_turns(driver):
    fill(driver, S.ONGOING)
    turns = sweep(driver, 70)
    assert states(driver) == [S.PREPARE_ABORT] * COUNT
    assert sum(turns) == COUNT
    assert max(turns) == PER_TURN
    assert driver.shard.deadline() == 70 + LIMITS.abort_interval_ms / 1000


def test_live_transactions_are_examined_in_turns(driver):
    fill(driver, S.ONGOING)
    assert sweep(driver, 20) == [0] * (COUNT // 10)
    assert states(driver) == [S.ONGOING] * COUNT


def test_transaction_ending_during_sweep_is_not_aborted(driver):
    fill(driver, S.ONGOING)
    driver.now = 70
    turn(driver)
    last = name_of(COUNT - 1)
    done = driver.shard.transactions[last]._replace(state=S.COMPLETE_COMMIT, partitions=frozenset())
    driver.append([TransactionRecord(last, done), TransactionRecord(name_of(COUNT - 2), None)])
    sweep(driver, 70)
    assert driver.shard.transactions[last] is done
    assert states(driver) == [S.PREPARE_ABORT] * (COUNT - 2) + [S.COMPLETE_COMMIT]


def test_ids_expire_in_turns(driver):
    fill(driver, S.EMPTY)
    turns = sweep(driver, LIMITS.id_expiration_ms / 1000)
    assert states(driver) == []
    assert sum(turns) == COUNT
    assert max(turns) == PER_TURN


def test_young_ids_do_not_block_the_sweep(driver):
    """More young ids come first than are examined in one turn."""
    for state, seconds in ((S.ONGOING, 70), (S.EMPTY, LIMITS.id_expiration_ms / 1000)):
        fill(driver, state)
        now_ms = WALL_CLOCK_MS + round(seconds * 1000)
        young = [name_of(number) for number in range(25)]
        for name in young:
            one = driver.shard.transactions[name]
            later = one._replace(started_ms=now_ms, updated_ms=now_ms)
            driver.append([TransactionRecord(name, later)])
        assert sum(sweep(driver, seconds)) == COUNT - 25
        kept = [
            name
            for name, transaction in driver.shard.transactions.items()
            if transaction.state is state
        ]
        assert kept == young


def test_id_removed_during_sweep_is_skipped(driver):
    fill(driver, S.EMPTY)
    driver.now = LIMITS.id_expiration_ms / 1000
    turn(driver)
    driver.append([TransactionRecord(name_of(COUNT - 1), None)])
    assert sum(sweep(driver, driver.now)) == COUNT - 1 - PER_TURN
