"""Retention, deletion under readers, and the log's start."""

import os
from dataclasses import replace

import pytest

from tests.log.helpers import append, batch_bytes, fill, open_log, read_all
from trimaran.log.batches.batch import iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.segments.rolling import must_roll
from trimaran.wire.errors import ErrorCode, KafkaError


def config(**changes):
    return LogConfig(
        segment_bytes=1000, index_interval_bytes=150, **{"retention_ms": -1, **changes}
    )


def filled(directory, **changes):
    return fill(open_log(directory, config(**changes)), 60)


def test_nothing_is_deleted_without_limit(tmp_path):
    assert filled(tmp_path / "t-0").apply_retention(1 << 60, 1 << 60) == 0


def test_time_retention_stops_at_high_watermark(tmp_path):
    """KAFKA-5634."""
    log = filled(tmp_path / "t-0", retention_ms=100)
    bases = log.segment_base_offsets
    assert log.apply_retention(1 << 40, bases[3]) == 3
    assert (log.log_start_offset, log.segment_base_offsets[0]) == (bases[3], bases[3])
    assert log.apply_retention(1 << 40, bases[4] - 1) == 0


def test_time_retention_removes_only_old_segments(tmp_path):
    log = filled(tmp_path / "t-0", retention_ms=100)  # timestamps are 1000 + offset
    bases = log.segment_base_offsets
    assert log.apply_retention(1000 + bases[2] - 1 + 2 + 101, log.log_end_offset) == 2
    assert log.log_start_offset == bases[2]


def test_old_active_segment_is_rolled_and_removed(tmp_path):
    log = filled(tmp_path / "t-0", retention_ms=100)
    end = log.log_end_offset
    assert log.apply_retention(1 << 40, end) > 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (end, end, 0)
    log.close()
    again = open_log(log.directory, config(), clean=True)
    assert (again.log_start_offset, again.log_end_offset) == (end, end)
    append(again)
    assert again.log_end_offset == end + 1


def test_size_retention_removes_oldest_segments(tmp_path):
    log = filled(tmp_path / "t-0", retention_bytes=2500)
    log.apply_retention(0, log.log_end_offset)
    assert 2500 <= log.size_bytes < 3500
    assert log.apply_retention(0, log.log_end_offset) == 0


def test_compact_only_topics_ignore_size_and_time_retention(tmp_path):
    log = filled(tmp_path / "t-0", retention_bytes=1, retention_ms=1, deletes=False, compacts=True)
    assert log.apply_retention(1 << 40, log.log_end_offset) == 0
    log.delete_records_before(100)
    assert log.apply_retention(1 << 40, log.log_end_offset) > 0


def test_file_age_counts_without_timestamps(tmp_path):
    log = open_log(tmp_path / "t-0", config(retention_ms=1000))
    for _ in range(30):
        append(log, 3, timestamp_ms=-1, step_ms=0)
    for path in log.directory.glob("*.log"):
        os.utime(path, (5, 5))
    assert log.apply_retention(5500, log.log_end_offset) == 0
    assert log.apply_retention(6001, log.log_end_offset) > 0


def test_readers_keep_their_data(tmp_path):
    log = filled(tmp_path / "t-0", retention_ms=100)
    pieces = [
        log.read(base, 10_000, upto_offset=log.log_end_offset, min_one=True)
        for base in log.segment_base_offsets
    ]
    before = read_all(log)
    log.apply_retention(1 << 40, log.log_end_offset)
    log.purge()
    assert len(list(log.directory.glob("*.log"))) == 1
    data = b"".join(piece.read() for piece in pieces)
    assert [bytes(view.buffer) for view in iter_batches(data)] == before


def test_expired_files_are_renamed_then_unlinked_by_purge(tmp_path):
    log = filled(tmp_path / "t-0", retention_ms=100)
    log.apply_retention(1 << 40, log.segment_base_offsets[2])
    assert len(list(log.directory.glob("*.deleted"))) == 6
    log.purge()
    assert not list(log.directory.glob("*.deleted"))


def test_deleted_records_move_the_log_start(tmp_path):
    log = filled(tmp_path / "t-0")
    log.delete_records_before(50)
    log.delete_records_before(40)
    assert log.log_start_offset == 50
    with pytest.raises(KafkaError) as raised:
        log.read(49, 100, upto_offset=180, min_one=True)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError) as raised:
        log.delete_records_before(181)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.offset_for_timestamp(0).offset == 50
    assert log.apply_retention(0, 180) > 0
    assert log.log_start_offset == 50
    assert log.epochs.entries() == [(0, 50)]


def test_emptied_log_withdraws_its_flushed_offset(tmp_path):
    """Until the new segment exists, the log has none; with an old checkpoint of its start this would look like lost
    records.
    """
    log = open_log(tmp_path / "t-0")
    append(log, 20)
    log.flush()
    log.delete_records_before(10)
    noted = []
    log.before_truncate = noted.append
    log.truncate_fully_and_start_at(15)
    assert noted == [0]


def test_emptied_log_may_start_anywhere(tmp_path):
    log = filled(tmp_path / "t-0")
    log.flush()
    log.truncate_fully_and_start_at(12345)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (12345, 12345, 12345)
    assert log.epochs.latest_epoch == -1
    append(log, 2, epoch=7)
    log.flush()
    log.close(clean=False)
    again = open_log(log.directory, config(), recovery_point=12347)
    assert (again.log_start_offset, again.log_end_offset) == (12345, 12347)
    assert again.epochs.entries() == [(7, 12345)]


@pytest.mark.parametrize("base_offset", [2, 10], ids=["in a batch", "in a gap"])
def test_log_cut_around_its_start_begins_there_again(tmp_path, base_offset):
    """Deleted records stay deleted: a start that moved back would be below the checkpointed one."""
    log = fill(open_log(tmp_path / "t-0"), 1, count=2)
    data = batch_bytes(10, base_offset=base_offset, leader_epoch=0)
    log.append_as_follower(memoryview(data))
    log.delete_records_before(5)
    log.truncate_to(7)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    log.append_as_follower(memoryview(data))
    assert (log.log_start_offset, log.log_end_offset) == (5, base_offset + 10)


def test_segment_rolls_by_time(tmp_path):
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    append(log, timestamp_ms=5000)
    append(log, timestamp_ms=6000)
    append(log, timestamp_ms=6001)
    assert log.segment_base_offsets == (0, 2)


def test_jitter_spreads_rolls_by_time(tmp_path):
    spread = config(segment_ms=1000, segment_jitter_ms=500)
    ages = set()
    for partition in range(20):
        log = open_log(tmp_path / f"t-{partition}", spread)
        append(log, timestamp_ms=1000)
        age = next(age for age in range(490, 1002) if rolls_at(log, 1000 + age))
        ages.add(age)
        assert 501 <= age <= 1001
    assert len(ages) > 10


def rolls_at(log, timestamp_ms):
    return must_roll(log.active_segment, log.config, 100, 1, timestamp_ms, 0)


def test_young_segment_does_not_delay_compaction(tmp_path):
    log = open_log(
        tmp_path / "t-0", config(compacts=True, segment_ms=1000, max_compaction_lag_ms=300)
    )
    append(log, timestamp_ms=1000)
    assert not rolls_at(log, 1300)
    assert rolls_at(log, 1301)
    log.config = replace(log.config, compacts=False)
    assert not rolls_at(log, 1301)


def test_segment_rolls_with_full_index(tmp_path):
    log = fill(
        open_log(tmp_path / "t-0", LogConfig(segment_index_bytes=48, index_interval_bytes=1)), 30
    )
    assert len(log.segment_base_offsets) > 4
    assert all(path.stat().st_size <= 48 for path in log.directory.glob("*index"))


def test_only_a_few_old_segments_stay_open(tmp_path):
    log = filled(tmp_path / "t-0")
    log.flush()
    read_all(log)
    opened = [s for s in log._segments.all if s._log_file.is_open]
    assert len(log._segments) > 9 >= len(opened)


def test_deleted_files_stay_for_their_delay(tmp_path):
    log = filled(tmp_path / "t-0", file_delete_delay_ms=60_000)
    log.truncate_fully_and_start_at(100)

    def deleted():
        return len(list((tmp_path / "t-0").glob("*.deleted")))

    renamed = deleted()
    assert renamed
    for now_ms in (5_000, 64_999):
        log.purge(now_ms)
        assert deleted() == renamed
    log.purge(65_000)
    assert deleted() == 0
