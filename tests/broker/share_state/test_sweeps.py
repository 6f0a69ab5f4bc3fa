"""The work of a shard that is due at some time: redundant records, cold snapshots, states of deleted topics."""

from __future__ import annotations

import pytest

from tests.broker.share_state.driver import (
    ACKNOWLEDGED,
    KEY,
    OTHER,
    TOPIC_ID,
    WALL_CLOCK_MS,
    Driver,
)
from trimaran.broker.share_state import shard
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.records import SnapshotRecord
from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey

INTERVAL = 300
ACKED = StateBatch(100, 109, ACKNOWLEDGED, 1)
OTHER_TOPIC = bytes(15) + b"\x08"
NEVER_MS = 10**12
ONLY_PRUNE = ShareLimits(updates_per_snapshot=1, cold_snapshot_interval_ms=NEVER_MS)
ONLY_COLD = ShareLimits(prune_interval_ms=NEVER_MS)


def test_log_is_pruned_to_oldest_last_snapshot():
    driver = Driver(ONLY_PRUNE)
    driver.initialize(KEY)
    driver.initialize(OTHER)
    driver.write(ACKED)
    driver.write(ACKED)  # a snapshot at offset 3
    driver.advance(INTERVAL)
    assert driver.follow_ups == ["1"]
    driver.prune()
    driver.write(ACKED, key=OTHER)
    driver.write(ACKED, key=OTHER)  # at offset 5
    driver.advance(INTERVAL)
    assert driver.follow_ups == ["3"]
    before = driver.read(0), driver.read(0, OTHER)
    driver.prune()
    driver.reload()
    assert (driver.read(0), driver.read(0, OTHER)) == before


def test_a_pruned_log_is_not_pruned_again():
    driver = Driver(ONLY_PRUNE)
    driver.initialize()
    driver.initialize()
    driver.advance(INTERVAL)
    driver.advance(INTERVAL)
    assert driver.follow_ups == ["1", "1"]  # the first pruning is not done yet
    driver.prune()
    driver.advance(INTERVAL)
    assert driver.follow_ups == []


def test_log_with_one_snapshot_is_not_pruned():
    driver = Driver(ONLY_PRUNE)
    driver.advance(INTERVAL)
    driver.initialize()
    driver.advance(INTERVAL)
    assert driver.follow_ups == []


def test_log_without_states_keeps_its_last_record():
    driver = Driver(ONLY_PRUNE)
    driver.initialize()
    driver.delete()
    driver.advance(INTERVAL)
    assert driver.follow_ups == ["1"]


def test_old_snapshot_is_written_again():
    driver = Driver(ONLY_COLD)
    driver.initialize()
    driver.read(5)
    driver.write(ACKED, count=10)
    driver.advance(INTERVAL)
    state = driver.records()[0].state
    again = SnapshotRecord(
        KEY,
        state._replace(
            snapshot_epoch=1,
            leader_epoch=5,
            delivery_complete_count=10,
            batches=(ACKED,),
            written_ms=WALL_CLOCK_MS + INTERVAL * 1000,
        ),
    )
    assert driver.records()[3:] == [again]


def test_recent_snapshot_is_not_written_again():
    driver = Driver(ONLY_COLD)
    driver.advance(0.001)
    driver.initialize()
    driver.advance(INTERVAL)
    assert len(driver.log) == 1


def test_shard_of_cold_snapshots_writes_nothing():
    driver = Driver(ONLY_COLD)
    driver.initialize(KEY)
    driver.initialize(OTHER)
    driver.advance(3 * INTERVAL)
    assert len(driver.log) == 4
    driver.reload()
    driver.advance(2 * INTERVAL)
    assert len(driver.log) == 4
    driver.initialize(KEY)  # a write has made the snapshot
    driver.advance(INTERVAL)
    assert [record.key for record in driver.records()[5:]] == [OTHER, KEY]


def test_snapshot_from_future_clock_counts_as_old():
    driver = Driver(ONLY_COLD)
    driver.initialize()
    state = driver.records()[0].state
    later = WALL_CLOCK_MS + 10**9
    driver.append([SnapshotRecord(KEY, state._replace(created_ms=later, written_ms=later))])
    driver.advance(INTERVAL)
    assert driver.records()[-1].state.written_ms == WALL_CLOCK_MS + INTERVAL * 1000


def test_many_old_states_are_written_in_pieces(monkeypatch):
    monkeypatch.setattr(shard, "RECORDS_PER_STEP", 2)
    driver = Driver(ONLY_COLD)
    driver.topics[TOPIC_ID] = 5
    for index in range(5):
        driver.initialize(SharePartitionKey("g", TOPIC_ID, index))
    sizes = []
    append = driver.append
    driver.append = lambda records: (sizes.append(len(records)), append(records))
    driver.advance(INTERVAL)
    assert sizes == [2, 2, 1]


def test_a_piece_has_at_most_250_records():
    driver = Driver(ONLY_COLD)
    driver.topics[TOPIC_ID] = 251
    for index in range(251):
        driver.initialize(SharePartitionKey("g", TOPIC_ID, index))
    sizes = []
    append = driver.append
    driver.append = lambda records: (sizes.append(len(records)), append(records))
    driver.shard.topics_deleted([TOPIC_ID], driver.at)
    driver.advance(0)
    assert sizes == [250, 1]


@pytest.mark.parametrize(("bytes_max", "sizes"), [(1, [1, 1]), (308, [2]), (307, [1, 1])])
def test_a_piece_is_bounded_in_bytes(monkeypatch, bytes_max, sizes):
    """A record without batches counts 154 bytes."""
    monkeypatch.setattr(shard, "BYTES_PER_STEP", bytes_max)
    driver = Driver(ONLY_COLD)
    driver.initialize(KEY)
    driver.initialize(OTHER)
    found = []
    append = driver.append
    driver.append = lambda records: (found.append(len(records)), append(records))
    driver.advance(INTERVAL)
    assert found == sizes


def test_failed_snapshots_wait_for_the_next_sweep():
    driver = Driver(ONLY_COLD)
    driver.initialize()
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(INTERVAL)
    driver.failing = None
    driver.advance(INTERVAL - 1)
    assert len(driver.log) == 1
    driver.advance(1)
    assert len(driver.log) == 2


def test_states_of_a_deleted_topic_are_removed(monkeypatch):
    monkeypatch.setattr(shard, "RECORDS_PER_STEP", 1)
    driver = Driver(ONLY_PRUNE)
    other = SharePartitionKey("g", OTHER_TOPIC, 0)
    driver.topics[OTHER_TOPIC] = 1
    for key in (KEY, OTHER, other):
        driver.initialize(key)
    del driver.topics[TOPIC_ID]
    driver.shard.topics_deleted([TOPIC_ID, bytes(16)], driver.at)
    driver.advance(0)
    assert driver.records()[3:] == [SnapshotRecord(KEY, None), SnapshotRecord(OTHER, None)]
    assert driver.read(0, other).summary.start_offset == 100


def test_topics_deleted_before_the_load_are_removed():
    driver = Driver(ONLY_PRUNE)
    driver.initialize()
    driver.topics.clear()
    driver.reload()
    driver.advance(0)
    assert driver.records()[1:] == [SnapshotRecord(KEY, None)]


def test_failed_removals_are_repeated(monkeypatch):
    monkeypatch.setattr(shard, "RECORDS_PER_STEP", 1)
    driver = Driver(ONLY_PRUNE)
    driver.initialize(KEY)
    driver.initialize(OTHER)
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.shard.topics_deleted([TOPIC_ID], driver.at)
    driver.advance(0.999)
    driver.failing = None
    assert len(driver.log) == 2
    driver.advance(0.001)
    assert driver.records()[2:] == [SnapshotRecord(OTHER, None), SnapshotRecord(KEY, None)]


def test_a_state_deleted_meanwhile_needs_no_removal():
    driver = Driver(ONLY_PRUNE)
    driver.initialize()
    driver.shard.topics_deleted([TOPIC_ID], driver.at)
    driver.delete()
    driver.advance(0)
    assert driver.records()[1:] == [SnapshotRecord(KEY, None)]
