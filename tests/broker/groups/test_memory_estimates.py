"""The memory that groups are charged for is close to the memory that they take."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.broker.groups.driver import Driver

MANY = 300


def pending(driver, number):
    driver.join(str(number), version=9)


def member(driver, number):
    driver.join(str(number), version=3)


def consumer(driver, number):
    driver.consumer_heartbeat(f"m{number}")


def group(driver, number):
    driver.commit_offset(1, group=f"g{number}")


def topic(driver, number):
    driver.commit_offset(1, topic=f"t{number}")


def offset(driver, number):
    driver.commit_offset(1, partition=number)


def charged(driver):
    return driver.shard.account.bytes + driver.shard.account.known_bytes


def traced(driver):
    driver.answers.clear()
    driver.log.clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


# Members and groups grow later, and are charged for that from the beginning.
@pytest.mark.parametrize(
    ("add", "times_max"),
    [(pending, 1.5), (member, 3.5), (consumer, 3.5), (group, 3.5), (topic, 1.6), (offset, 2.2)],
)
def test_charge_is_near_the_memory_taken(add, times_max):
    driver = Driver()
    add(driver, MANY)  # shared objects
    tracemalloc.start()
    try:
        charged_before, before = charged(driver), traced(driver)
        for number in range(MANY):
            add(driver, number)
        taken, charge = traced(driver) - before, charged(driver) - charged_before
    finally:
        tracemalloc.stop()
    assert taken / 1.25 < charge < times_max * taken
