"""The bounds of the states of share partitions."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from tests.broker.share_state.driver import ACKNOWLEDGED, AVAILABLE, KEY, OTHER, Driver, code
from tests.slow_steps import calls_of, calls_of_each
from trimaran.broker.share_state import shard
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.memory import (
    BATCH_BYTES,
    BATCHES_MAX,
    RECORD_BYTES,
    STATE_BYTES,
    encoded_bytes,
)
from trimaran.broker.share_state.records import ShareRecordSerde, SnapshotRecord, StoredState
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.share_state.states import ShareSummary, StateBatch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey

E = ErrorCode


def batches(count, first=100):
    return [StateBatch(first + 2 * n, first + 2 * n, ACKNOWLEDGED, 1) for n in range(count)]


def held(driver):
    return driver.shard.account.bytes


def test_bytes_follow_every_change():
    driver = Driver()
    driver.initialize()
    assert held(driver) == STATE_BYTES + 1
    driver.write(*batches(3))
    assert held(driver) == STATE_BYTES + 1 + 3 * BATCH_BYTES
    driver.write(start_offset=103)
    assert held(driver) == STATE_BYTES + 1 + BATCH_BYTES
    driver.reload()
    assert held(driver) == STATE_BYTES + 1 + BATCH_BYTES
    driver.initialize(KEY, 2)
    assert held(driver) == STATE_BYTES + 1
    driver.delete()
    assert held(driver) == 0
    assert driver.shard._by_topic == {}


def test_new_state_beyond_memory_limit_is_refused(monkeypatch):
    driver = Driver()
    driver.initialize()
    for bytes_max, expected in ((-1, E.POLICY_VIOLATION), (0, E.NONE), (1, E.NONE)):
        driver.delete(OTHER)
        monkeypatch.setattr(shard, "STATES_BYTES_MAX", 2 * STATE_BYTES + 2 + bytes_max)
        assert code(lambda: driver.initialize(OTHER)) is expected
    assert code(lambda: driver.initialize(OTHER, 2)) is E.NONE


def test_write_beyond_memory_limit_is_refused(monkeypatch):
    driver = Driver()
    driver.initialize()
    driver.write(*batches(3))
    bytes_max = held(driver)
    monkeypatch.setattr(shard, "STATES_BYTES_MAX", bytes_max)
    assert code(lambda: driver.write(*batches(1, 120))) is E.POLICY_VIOLATION
    assert code(lambda: driver.write(*batches(3))) is E.NONE
    assert code(lambda: driver.write(StateBatch(100, 104, AVAILABLE, 2))) is E.NONE
    assert held(driver) == bytes_max - 2 * BATCH_BYTES


@pytest.mark.parametrize(("count", "expected"), [(4, E.NONE), (5, E.NONE), (6, E.POLICY_VIOLATION)])
def test_the_batches_of_a_state_are_bounded(monkeypatch, count, expected):
    monkeypatch.setattr(shard, "BATCHES_MAX", 5)
    driver = Driver()
    driver.initialize()
    driver.write(*batches(2))
    assert code(lambda: driver.write(*batches(count))) is expected


@pytest.mark.parametrize(("count", "expected"), [(3, E.NONE), (4, E.POLICY_VIOLATION)])
def test_batches_of_many_writes_are_bounded(monkeypatch, count, expected):
    monkeypatch.setattr(shard, "BATCHES_MAX", 5)
    driver = Driver()
    driver.initialize()
    driver.write(*batches(2))
    assert code(lambda: driver.write(*batches(count, 120))) is expected


def test_many_covered_batches_are_refused(monkeypatch):
    monkeypatch.setattr(shard, "BATCHES_MAX", 5)
    driver = Driver()
    driver.initialize()
    driver.write(StateBatch(100, 200, ACKNOWLEDGED, 2))
    assert code(lambda: driver.write(*batches(6))) is E.POLICY_VIOLATION


def test_shards_share_one_memory_limit(monkeypatch):
    accounts = WeakSet()
    driver, other = Driver(), Driver()
    for one in (driver, other):
        one.shard = ShareCoordinatorShard(one.limits, lambda _: 9, accounts)
    monkeypatch.setattr(shard, "STATES_BYTES_MAX", STATE_BYTES + 1)
    driver.initialize()
    assert code(other.initialize) is E.POLICY_VIOLATION
    driver.shard.close(driver.at)
    assert code(other.initialize) is E.NONE


@pytest.mark.parametrize("count", [0, 1, BATCHES_MAX])
def test_estimated_size_of_record_is_large_enough(count):
    state = StoredState(1 << 30, 1 << 30, 1 << 30, 1 << 60, 1 << 30, tuple(batches(count)), 1, 1)
    for group_id in ("g", "\U0001f600" * 8_000):
        record = SnapshotRecord(SharePartitionKey(group_id, bytes(16), 1), state)
        encoded = ShareRecordSerde().encode(record, 1)
        size = len(encoded.key) + len(encoded.value) + 20  # the frame of a record in a batch
        assert encoded_bytes(record) - RECORD_BYTES <= size <= encoded_bytes(record)


# The calls of a step, and the calls for each batch in the last step, which encodes the batches and writes the record.
CALLS_A_STEP = 25_000
CALLS_EACH_MAX = 3


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
@pytest.mark.parametrize("known", [0, 1, BATCHES_MAX // 2])
def test_largest_write_is_decided_in_steps(known, updates_per_snapshot):
    """An acknowledgement of records with different decisions has as many batches as records."""
    driver = Driver(ShareLimits(updates_per_snapshot=updates_per_snapshot))
    driver.initialize()
    if known:
        driver.write(*batches(known))
    written = [
        StateBatch(100 + n, 100 + n, AVAILABLE, 2 + n % 2) for n in reversed(range(BATCHES_MAX))
    ]
    steps = driver.shard.write(KEY, ShareSummary(1, 5, 100, 0), written, driver.at)
    calls, result = calls_of_each(steps)
    assert max(calls) < CALLS_A_STEP
    assert calls_of(lambda: driver.submit(result)) < CALLS_EACH_MAX * BATCHES_MAX
    before = driver.shard._entries[KEY].state
    assert len(before.batches) == BATCHES_MAX
    driver.reload()
    assert driver.shard._entries[KEY].state == before
