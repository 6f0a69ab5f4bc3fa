"""Rounds over many partitions let other tasks run, and retention opens only those idle logs that need it."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import trio

from tests.broker.background.test_log_cleaner import cleaner_of, harness_with, write
from tests.broker.background.test_rounds_that_fail import is_compacted, maintained, with_logs
from tests.checks import check_each
from trimaran.broker.background import log_cleaner, maintenance
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes, _due
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.disk.files import FileStatus
from trimaran.node.runtime import pacing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

CLOSED = SimpleNamespace(open_log=None)


def maintenance_of(partitions, directories=None):
    return Maintenance(partitions, directories, MaintenanceTimes(), lambda: 0)


@pytest.fixture
def turns(monkeypatch):
    """Returns a list with an entry for each turn of other tasks. The time limit is 0, so there is a turn before each
    partition.
    """
    taken = []

    async def turn():
        taken.append(True)

    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    for module in (maintenance, pacing):
        monkeypatch.setattr(module, "yield_to_loop", turn)
    return taken


COUNTS = (0, 1, 5)


@pytest.mark.parametrize("count", COUNTS)
async def test_loop_yields_while_logs_are_checked_for_dirt(turns, count):
    cleaner = LogCleaner([CLOSED] * count, None, CleanerSettings, lambda: 0)
    assert not await cleaner.clean_dirtiest()
    assert len(turns) == count + 1, "and once, as nothing is postponed"


@pytest.mark.parametrize("count", COUNTS)
async def test_loop_yields_while_logs_are_flushed(turns, count):
    await maintenance_of([CLOSED] * count).flush_once()
    assert len(turns) == count + 1


@pytest.mark.parametrize("count", COUNTS)
async def test_loop_yields_while_retention_is_applied(turns, monkeypatch, count):
    async def shortened(_maintenance, partition_log, partition):
        assert partition_log is partition.open_log
        return 3

    async def nothing(_maintenance):
        pass

    monkeypatch.setattr(Maintenance, "_open_due", nothing)
    monkeypatch.setattr(Maintenance, "_shorten", shortened)
    partitions = [SimpleNamespace(open_log="a log")] * count
    assert await maintenance_of(partitions).retain_once() == 3 * count
    assert len(turns) == count + 1


@pytest.mark.parametrize(
    ("segments", "expected"), [(0, 0), (99, 0), (100, 2), (150, 2), (199, 2), (200, 3)]
)
async def test_hundred_segments_are_removed_per_turn(turns, monkeypatch, segments, expected):
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", math.inf)
    asked = []

    class Log:
        def date_oldest(self, at_ms, count):
            yield from ()

        def apply_retention(self, at_ms, high_watermark, count):
            asked.append((at_ms, high_watermark, count))
            return min(count, segments - 100 * (len(asked) - 1))

    times = itertools.count(7)
    upkeep = Maintenance([], None, MaintenanceTimes(), lambda: next(times))
    removed = await upkeep._shorten(Log(), SimpleNamespace(high_watermark=5))
    assert removed == segments
    assert asked == [(7 + number, 5, 100) for number in range(segments // 100 + 1)]
    assert len(turns) == expected


async def test_loop_yields_while_producers_expire(turns):
    asked = []
    opened = SimpleNamespace(open_log=SimpleNamespace(remove_expired_producers=asked.append))
    await maintenance_of([opened, CLOSED, opened]).expire_producers_once()
    assert asked == [0, 0]
    assert len(turns) == 4


async def test_loop_yields_while_lagging_followers_are_dropped(turns, nursery, autojump_clock):
    dropped = []
    partition = SimpleNamespace(drop_lagging_followers=lambda: dropped.append(len(turns)))
    nursery.start_soon(maintenance_of([partition] * 3)._drop_lagging)
    await trio.sleep(16)
    assert dropped == [1, 2, 3]


# -- logs at rest


def config_of(retention_ms=-1, retention_bytes=-1, *, compacts=False):
    return SimpleNamespace(
        retention_ms=retention_ms, retention_bytes=retention_bytes, compacts=compacts
    )


NOW = 10_000


def is_due(files, config):
    """Whether retention opens a log with segments of these (size, age)."""
    found = [FileStatus(size, NOW - age_ms, is_regular=True) for size, age_ms in files]
    asked = []

    def segment_files(key):
        asked.append(key)
        return found

    partition = SimpleNamespace(topic_partition=TopicPartition("t", 3))
    due = _due([(SimpleNamespace(segment_files=segment_files), partition, config)], NOW)
    assert asked == [("t", 3)]
    assert due in ([], [partition])
    return bool(due)


def wanted(files, config):
    """Whether Kafka's `deleteOldSegments` would delete a segment, judged by the newest timestamp that it may hold."""
    limit = config.retention_ms
    old = [age for _, age in files if limit >= 0 and age > limit]
    limit = config.retention_bytes
    is_large = limit >= 0 and sum(size for size, _ in files) - limit > 0
    return bool(old) or is_large or (config.compacts and len(files) >= 2)


def test_idle_log_is_due_as_naive_twin():
    some_files = [
        [],
        [(0, 0)],
        [(1, 1)],
        [(1, 0)],
        [(5, 7)],
        [(5, 7), (5, 3)],
        [(2, 3), (3, 8)],
        [(1, 1), (1, 1), (1, 1)],
    ]
    limits = (-1, 0, 1, 3, 4, 5, 7, 8, 10)
    cases = itertools.product(some_files, limits, limits, (False, True))
    check_each(cases, check_due)


def check_due(case):
    files, retention_ms, retention_bytes, compacts = case
    config = config_of(retention_ms, retention_bytes, compacts=compacts)
    assert is_due(files, config) == wanted(files, config)


def test_log_with_unlistable_files_delays_no_other():
    def fails(*_key):
        raise OSError(5, "the disk is gone")

    files = [FileStatus(1, 0, is_regular=True)]
    partitions = [SimpleNamespace(topic_partition=TopicPartition("t", index)) for index in range(3)]
    looks = (fails, lambda *_: files, lambda *_: files)
    resting = [
        (SimpleNamespace(segment_files=look), partition, config_of(retention_bytes=0))
        for look, partition in zip(looks, partitions, strict=True)
    ]
    assert _due(resting, NOW) == partitions[1:]


async def test_log_deleted_during_age_check_is_not_opened(tmp_path, monkeypatch, caplog):
    harness = with_logs(tmp_path, 2)
    partitions = list(harness.partitions)
    for each_partition in partitions:
        each_partition.release_log()

    async def deleted(_look, resting, _now_ms):
        harness.set_image()
        return [partition for _, partition, _ in resting]

    monkeypatch.setattr(maintenance, "run_blocking", deleted)
    assert await maintained(harness).retain_once() == 0
    assert [partition.open_log for partition in partitions] == [None, None]
    assert not caplog.records


async def test_logs_in_offline_directories_are_not_examined(tmp_path, monkeypatch):
    harness = with_logs(tmp_path, 3)
    looked = []

    async def noted(_look, resting, at_ms):
        looked.append(([partition.name for _, partition, _ in resting], at_ms))
        return []

    monkeypatch.setattr(maintenance, "run_blocking", noted)
    for index in (0, 1):
        harness.partitions.find(TopicPartition("t", index)).release_log()
    upkeep = maintained(harness, lambda: NOW)
    await upkeep._open_due()
    harness.directory.forget(TopicPartition("t", 1))
    await upkeep._open_due()
    harness.directory.health.fail("the disk is gone")
    await upkeep._open_due()
    assert looked == [(["t-0", "t-1"], NOW), (["t-0"], NOW), ([], NOW)]


async def test_each_log_opened_for_retention_takes_one_turn(tmp_path, monkeypatch, turns, caplog):
    """A log that cannot be opened does not hold back the others."""
    harness = with_logs(tmp_path, 3)
    for each_partition in harness.partitions:
        each_partition.release_log()

    async def all_of_them(_look, resting, _now_ms):
        return [partition for _, partition, _ in resting]

    monkeypatch.setattr(maintenance, "run_blocking", all_of_them)
    open_log = LogDirectory.open_log

    def fails(directory, key, config):
        if key.partition == 1:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it is damaged")
        return open_log(directory, key, config)

    monkeypatch.setattr(LogDirectory, "open_log", fails)
    await maintained(harness)._open_due()
    opened = [partition.open_log is not None for partition in harness.partitions]
    assert opened == [True, False, True]
    assert len(turns) == (3 + 1) + (3 + 1), "of the look at them, and of their opening"
    assert "it is damaged" in caplog.text


# -- compaction


async def test_first_of_equally_dirty_logs_is_compacted_first(tmp_path):
    harness = harness_with(tmp_path, "a", "b", "c")
    a, b, c = (write(harness, name) for name in "abc")
    cleaner = cleaner_of(harness)
    done = []
    for _ in range(3):
        assert await cleaner.clean_dirtiest()
        done.append([is_compacted(log) for log in (a, b, c)])
    assert done == [[True, False, False], [True, True, False], [True, True, True]]


async def test_flush_is_not_repeated_but_failed_checkpoint_is(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    leader = write(harness, "a")
    steps, refused = [], []
    write_checkpoints = LogDirectory.write_checkpoints

    def cut_between(directory, collected):
        if len(refused) < 2:
            refused.append(collected)
            return False
        return write_checkpoints(directory, collected)

    monkeypatch.setattr(LogDirectory, "write_checkpoints", cut_between)
    run_blocking = log_cleaner.run_blocking

    async def noted(step, *arguments):
        steps.append(getattr(step, "__name__", ""))
        return await run_blocking(step, *arguments)

    monkeypatch.setattr(log_cleaner, "run_blocking", noted)
    assert await cleaner_of(harness).clean_dirtiest()
    assert steps.count("run") == 0
    assert steps.count("cut_between") == 4, "two refusals, the checkpoint, and the progress"
    assert is_compacted(leader)
    assert list(harness.directory.offsets.cleaner_offsets) == [("a", 0)]
