"""Requests to one shard: states, epochs, refusals and the records that they write."""

from __future__ import annotations

import pytest

from tests.broker.share_state.driver import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    KEY,
    OTHER,
    TOPIC_ID,
    WALL_CLOCK_MS,
    Driver,
    code,
)
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.records import SnapshotRecord, StoredState, UpdateRecord
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.node.runtime.steps import at_once
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey

E = ErrorCode
NEW = StoredState(0, 1, 0, 100, 0, (), WALL_CLOCK_MS, WALL_CLOCK_MS)
ACKED = StateBatch(100, 109, ACKNOWLEDGED, 1)


@pytest.fixture
def driver():
    driver = Driver()
    driver.initialize()
    return driver


def test_initialize_writes_a_snapshot_without_batches(driver):
    driver.initialize(OTHER, 2, None)
    assert driver.records() == [
        SnapshotRecord(KEY, NEW),
        SnapshotRecord(
            OTHER, NEW._replace(state_epoch=2, start_offset=-1, delivery_complete_count=-1)
        ),
    ]
    assert driver.summary(OTHER) == ShareSummary(2, 0, None, None)


def test_initialize_again_forgets_the_batches(driver):
    driver.read()
    driver.write(ACKED)
    driver.initialize(KEY, 2, 300)
    assert driver.records()[-1] == SnapshotRecord(
        KEY, NEW._replace(snapshot_epoch=1, state_epoch=2, start_offset=300)
    )
    assert driver.read() == ShareState(ShareSummary(2, 0, 300, 0), ())


@pytest.mark.parametrize(
    ("begun", "leader", "batches", "again", "is_reset"),
    [
        (None, 0, (ACKED,), None, False),
        (None, 0, (ACKED,), 0, False),
        (None, 0, (ACKED,), 1, True),
        (None, 0, (), None, True),
        (None, 1, (), None, False),
        (0, 0, (), 0, True),
        (0, 1, (), 0, False),
        (0, 0, (ACKED,), 0, False),
        (0, 0, (), None, False),
        (100, 0, (), 0, True),
    ],
)
@pytest.mark.parametrize("epochs", [0, 1])
def test_initialize_again_keeps_a_state_in_use(begun, leader, batches, again, is_reset, epochs):
    driver = Driver()
    driver.initialize(KEY, 1, begun)
    driver.read(leader)
    if batches:
        driver.write(*batches, leader_epoch=leader, start_offset=50)
    before = len(driver.records())
    driver.initialize(KEY, 1 + epochs, again)
    assert len(driver.records()) == before + (is_reset or epochs)


def test_a_late_initialize_redelivers_nothing(driver):
    driver.initialize(KEY, 2, None)
    driver.read(0)
    driver.write(ACKED, state_epoch=2, leader_epoch=0, start_offset=110)
    driver.reload()
    driver.initialize(KEY, 2, None)
    assert driver.read(0) == ShareState(ShareSummary(2, 0, 110, 0), ())


def test_read_by_a_new_leader_writes_its_epoch(driver):
    assert driver.read(5) == ShareState(ShareSummary(1, 0, 100, 0), ())
    assert driver.read(5) == ShareState(ShareSummary(1, 5, 100, 0), ())
    assert driver.records()[1:] == [UpdateRecord(KEY, 0, 5, 100, 0, ())]


def test_write_adds_batches_to_the_state(driver):
    driver.read()
    driver.write(ACKED, count=10)
    driver.write(StateBatch(110, 119, AVAILABLE, 1), StateBatch(105, 109, ARCHIVED, 2), count=10)
    assert driver.read() == ShareState(
        ShareSummary(1, 5, 100, 10),
        (
            StateBatch(100, 104, ACKNOWLEDGED, 1),
            StateBatch(105, 109, ARCHIVED, 2),
            StateBatch(110, 119, AVAILABLE, 1),
        ),
    )
    assert driver.records()[-1] == UpdateRecord(
        *(KEY, 0, 5, 100, 10),
        (StateBatch(105, 109, ARCHIVED, 2), StateBatch(110, 119, AVAILABLE, 1)),
    )


@pytest.mark.parametrize(
    ("start_offset", "count", "expected"),
    [
        (None, 30, (100, 20)),
        (99, 30, (100, 20)),
        (100, 19, (100, 20)),
        (100, 30, (100, 30)),
        (101, 3, (101, 3)),
    ],
)
def test_an_earlier_position_has_no_effect(driver, start_offset, count, expected):
    driver.write(count=20)
    driver.write(start_offset=start_offset, count=count)
    assert driver.summary()[2:] == expected


def test_a_later_start_drops_the_batches_before_it(driver):
    driver.write(ACKED, start_offset=105, count=5)
    assert driver.read(0).batches == (StateBatch(105, 109, ACKNOWLEDGED, 1),)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_snapshot_follows_after_many_updates(limit):
    driver = Driver(ShareLimits(updates_per_snapshot=limit))
    driver.initialize()
    for number in range(2 * limit + 2):
        driver.write(StateBatch(100 + number, 100 + number, ACKNOWLEDGED, 1), count=number)
    kinds = [type(record) for record in driver.records()]
    assert kinds == [SnapshotRecord, *([UpdateRecord] * limit + [SnapshotRecord]) * 2]
    assert driver.records()[-1] == SnapshotRecord(
        KEY,
        NEW._replace(
            snapshot_epoch=2,
            delivery_complete_count=2 * limit + 1,
            batches=(StateBatch(100, 101 + 2 * limit, ACKNOWLEDGED, 1),),
        ),
    )


def test_snapshot_on_read_has_leader_and_batches():
    driver = Driver(ShareLimits(updates_per_snapshot=1))
    driver.initialize()
    driver.write(ACKED, count=10)
    driver.advance(2)
    driver.read(7)
    state = NEW._replace(
        snapshot_epoch=1, leader_epoch=7, delivery_complete_count=10, batches=(ACKED,)
    )
    at_ms = WALL_CLOCK_MS + 2000
    assert driver.records()[-1] == SnapshotRecord(
        KEY, state._replace(created_ms=at_ms, written_ms=at_ms)
    )
    assert code(lambda: driver.read(6)) is E.FENCED_LEADER_EPOCH


def test_highest_epochs_of_snapshots_fence_requests():
    driver = Driver()
    driver.append([SnapshotRecord(KEY, NEW._replace(state_epoch=3, leader_epoch=2))])
    driver.append([SnapshotRecord(KEY, NEW._replace(state_epoch=2, leader_epoch=1))])
    assert code(lambda: driver.write(state_epoch=2)) is E.FENCED_STATE_EPOCH
    assert code(lambda: driver.read(1)) is E.FENCED_LEADER_EPOCH


def test_snapshot_by_initialization_restarts_no_count():
    driver = Driver(ShareLimits(updates_per_snapshot=2))
    driver.initialize()
    driver.write(ACKED)
    driver.initialize()
    driver.write(ACKED)
    driver.write(ACKED)
    driver.write(ACKED)
    kinds = [type(record) for record in driver.records()]
    assert kinds == [SnapshotRecord, UpdateRecord] * 2 + [SnapshotRecord, UpdateRecord]


def many(count):
    """Returns the batches of a write that takes several steps."""
    return [StateBatch(100 + 2 * n, 100 + 2 * n, AVAILABLE, count) for n in range(1_000)]


def test_write_in_steps_keeps_requests_between_them(driver):
    driver.initialize()
    steps = driver.shard.write(KEY, ShareSummary(1, 5, 100, 0), many(1), driver.at)
    next(steps)
    driver.write(StateBatch(100, 101, ACKNOWLEDGED, 2), start_offset=100)
    driver.submit(at_once(steps))
    assert driver.read().batches == (StateBatch(100, 101, ACKNOWLEDGED, 2), *many(1)[1:])
    driver.reload()
    assert driver.read().batches == (StateBatch(100, 101, ACKNOWLEDGED, 2), *many(1)[1:])


@pytest.mark.parametrize(
    ("between", "refusal"),
    [
        (lambda driver: driver.read(leader_epoch=6), E.FENCED_LEADER_EPOCH),
        (lambda driver: driver.initialize(state_epoch=2), E.FENCED_STATE_EPOCH),
        (lambda driver: driver.delete(), E.INVALID_REQUEST),
        (lambda driver: driver.topics.clear(), E.NONE),
    ],
)
def test_write_in_steps_is_checked_again_finally(driver, between, refusal):
    driver.initialize()
    steps = driver.shard.write(KEY, ShareSummary(1, 5, 100, 0), many(1), driver.at)
    next(steps)
    between(driver)
    assert code(lambda: at_once(steps)) is refusal


def test_delete_writes_a_tombstone_once(driver):
    driver.delete()
    driver.delete()
    assert driver.records()[1:] == [SnapshotRecord(KEY, None)]
    assert code(driver.read) is E.INVALID_REQUEST
    driver.initialize(KEY, 0)
    assert driver.records()[-1] == SnapshotRecord(KEY, NEW._replace(state_epoch=0))


def test_the_summary_of_no_state_has_zero_epochs():
    assert Driver().summary() == ShareSummary(0, 0, None, None)


def test_a_lower_leader_epoch_is_fenced(driver):
    driver.read(5)
    assert [code(lambda epoch=epoch: driver.read(epoch)) for epoch in (4, 5)] == [
        E.FENCED_LEADER_EPOCH,
        E.NONE,
    ]
    codes = [code(lambda epoch=epoch: driver.write(leader_epoch=epoch)) for epoch in (4, 5, 6)]
    assert codes == [E.FENCED_LEADER_EPOCH, E.NONE, E.NONE]


def test_the_highest_leader_stays_after_another_initialize(driver):
    driver.read(5)
    driver.initialize(KEY, 2)
    assert code(lambda: driver.write(state_epoch=2, leader_epoch=4)) is E.FENCED_LEADER_EPOCH


def test_a_lower_state_epoch_is_fenced(driver):
    driver.initialize(KEY, 3)
    writes = [code(lambda epoch=epoch: driver.write(state_epoch=epoch)) for epoch in (2, 3, 4)]
    assert writes == [E.FENCED_STATE_EPOCH, E.NONE, E.NONE]
    again = [code(lambda epoch=epoch: driver.initialize(KEY, epoch)) for epoch in (2, 3)]
    assert again == [E.FENCED_STATE_EPOCH, E.NONE]


def test_older_leader_is_refused_before_older_state(driver):
    driver.initialize(KEY, 3)
    driver.read(5)
    assert code(lambda: driver.write(state_epoch=2, leader_epoch=4)) is E.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    "key", [SharePartitionKey("g", TOPIC_ID, 3), SharePartitionKey("g", bytes(16), 0)]
)
def test_a_partition_that_does_not_exist_is_refused(driver, key):
    acts = [
        lambda: driver.initialize(key),
        lambda: driver.summary(key),
        lambda: driver.delete(key),
        lambda: driver.read(key=key),
        lambda: driver.write(key=key),
    ]
    assert [code(act) for act in acts] == [
        *[E.UNKNOWN_TOPIC_OR_PARTITION] * 3,
        *[E.INVALID_REQUEST] * 2,  # no state either
    ]


def test_a_deleted_topic_is_refused_after_the_epochs(driver):
    driver.read(5)
    driver.topics.clear()
    acts = [
        lambda: driver.read(4),
        lambda: driver.read(5),
        lambda: driver.write(leader_epoch=4),
        driver.write,
        lambda: driver.initialize(KEY, 0),
    ]
    assert [code(act) for act in acts] == [
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.FENCED_STATE_EPOCH,
    ]


def test_negative_numbers_are_refused(driver):
    key = SharePartitionKey("g", TOPIC_ID, -1)
    acts = [
        lambda: driver.initialize(key),
        lambda: driver.initialize(KEY, -1),
        lambda: driver.read(-1),
        lambda: driver.read(key=key),
        lambda: driver.summary(key),
        lambda: driver.write(key=key),
        lambda: driver.write(leader_epoch=-1),
        lambda: driver.write(state_epoch=-1),
        lambda: driver.delete(key),
        lambda: driver.write(StateBatch(101, 100, AVAILABLE, 1)),
    ]
    assert {code(act) for act in acts} == {E.INVALID_REQUEST}
    assert len(driver.log) == 1


def test_an_update_without_a_snapshot_makes_a_state():
    driver = Driver()
    driver.append([UpdateRecord(KEY, 3, 4, 100, 10, (ACKED,))])
    assert driver.read(4) == ShareState(ShareSummary(0, 4, 100, 10), (ACKED,))
    driver.append([UpdateRecord(KEY, 3, -1, -1, 11, ())])
    assert driver.read(4) == ShareState(ShareSummary(0, 4, 100, 11), (ACKED,))


def test_batches_of_foreign_snapshot_are_ordered():
    driver = Driver()
    batches = StateBatch(110, 112, AVAILABLE, 1), ACKED, StateBatch(112, 113, AVAILABLE, 1)
    driver.append([SnapshotRecord(KEY, NEW._replace(batches=batches))])
    assert driver.read(0).batches == (ACKED, StateBatch(110, 113, AVAILABLE, 1))
