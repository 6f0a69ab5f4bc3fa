"""The memory limit of a broker's transactional ids."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from tests.broker.transactions.driver import ID, Driver
from trimaran.broker.transactions import shard
from trimaran.broker.transactions.memory import (
    ID_BYTES,
    PARTITION_BYTES,
    held_bytes,
)
from trimaran.broker.transactions.records import TransactionRecord
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

LONG = "x" * 10_000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Returns a driver in which all ids may take 100,000 bytes."""
    monkeypatch.setattr(shard, "TRANSACTIONS_BYTES_MAX", 100_000)


def init(driver, name):
    """Returns the id's producer, or the error code of the refusal."""
    try:
        decided = driver.shard.init_producer(
            name, None, 60_000, driver.new_producer_id(), driver.at
        )
    except KafkaError as error:
        return error.code
    return driver.submit(decided).response_producer


def counted(shard):
    return sum(held_bytes(name, transaction) for name, transaction in shard.transactions.items())


def test_long_ids_count_and_new_ones_are_refused():
    driver = Driver()
    known = [init(driver, f"{LONG}{number}") for number in range(5)]
    assert known[4] is ErrorCode.POLICY_VIOLATION
    assert all(isinstance(producer, Producer) for producer in known[:4])
    assert init(driver, f"{LONG}0").epoch == 1
    assert driver.shard.account.bytes == counted(driver.shard)
    driver.append([TransactionRecord(f"{LONG}0", None)])
    assert driver.shard.account.bytes == counted(driver.shard)
    assert isinstance(init(driver, f"{LONG}4"), Producer)


def test_short_ids_count_with_overhead():
    driver = Driver()
    for number in range(1_000):
        if init(driver, f"id {number}") is ErrorCode.POLICY_VIOLATION:
            break
    assert number == pytest.approx(100_000 / ID_BYTES, rel=0.05)


def test_partitions_count_until_their_transaction_has_ended():
    driver = Driver()
    producer = driver.init().response_producer
    at_rest = driver.shard.account.bytes
    driver.add(producer, *[TopicPartition("t", index) for index in range(200)])
    assert driver.shard.account.bytes == at_rest + 200 * PARTITION_BYTES
    with pytest.raises(KafkaError) as refused:
        driver.add(producer, *[TopicPartition("u", index) for index in range(100)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    driver.add(producer, TopicPartition("t", 0))
    assert init(driver, LONG) is ErrorCode.POLICY_VIOLATION
    driver.end(producer)
    driver.write_markers()
    assert driver.shard.account.bytes == at_rest
    assert isinstance(init(driver, LONG), Producer)


def test_expired_id_returns_its_room():
    driver = Driver()
    assert isinstance(init(driver, LONG), Producer)
    driver.advance(driver.limits.id_expiration_ms / 1000 + driver.limits.expiry_interval_ms)
    assert not driver.shard.transactions
    assert driver.shard.account.bytes == 0


def test_all_shards_count_together_until_one_is_closed():
    of_all = WeakSet()
    driver, other = Driver(), Driver()
    for item in (driver, other):
        item.shard = TransactionCoordinatorShard(item.limits, of_all)
        item.shard.loaded(item.at)
    for number in range(4):
        init(driver, f"{LONG}{number}")
    assert init(other, LONG) is ErrorCode.POLICY_VIOLATION
    driver.shard.close(driver.at)
    assert isinstance(init(other, LONG), Producer)


def test_loaded_transactions_count_and_are_never_refused(monkeypatch):
    monkeypatch.undo()
    driver = Driver()
    for name in (ID, *(f"{LONG}{number}" for number in range(6))):
        init(driver, name)
    monkeypatch.setattr(shard, "TRANSACTIONS_BYTES_MAX", 100_000)
    driver.reload()
    assert driver.shard.account.bytes == counted(driver.shard) > 100_000
    producer = driver.init().response_producer
    assert init(driver, "new") is ErrorCode.POLICY_VIOLATION
    driver.end(producer, is_commit=False)
