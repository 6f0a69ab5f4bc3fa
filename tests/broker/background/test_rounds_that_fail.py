"""Rounds of maintenance with a failing disk, a log removed meanwhile, or many partitions: reports, leftovers and
retries.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import trio
import trio.testing

from tests.broker.background.test_log_cleaner import cleaner_of, harness_with, values, write
from tests.broker.batches import append
from tests.checks import check_each
from tests.cluster.data_side import config, open_harness, partition, topic
from tests.counted_work import Work
from trimaran.broker.background import log_cleaner
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner, _Postponed
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes
from trimaran.broker.partitions.partition import Partition
from trimaran.log.compaction.cleaning import CleaningStopped, Round
from trimaran.log.disk.files import Files
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime import pacing
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E = ErrorCode


def is_compacted(leader):
    return set(map(len, values(leader.log).values())) == {1}


# -- compaction


def test_cleaner_is_configured_within_bounds():
    def of(**keys):
        settings = {f"log_cleaner_{name}": value for name, value in keys.items()}
        return CleanerSettings.of(NodeConfigs(config(**settings), ConfigsImage))

    found = of(
        backoff_ms="2500",
        dedupe_buffer_size="1048576",
        io_max_bytes_per_second="1000",
        enable="false",
    )
    assert (found.enabled, found.backoff, found.bytes_per_second_max) == (False, 2.5, 1000)
    assert found.limits.map_bytes == 1 << 20
    defaults = CleanerSettings()
    assert (of().enabled, of().backoff, of().limits) == (True, 15.0, defaults.limits)
    for factor, full in (("0", 0.01), ("0.01", 0.01), ("0.5", 0.5), ("1", 0.99), ("7", 0.99)):
        limits = of(io_buffer_load_factor=factor).limits
        assert limits == replace(defaults.limits, load_factor=full)


async def test_running_cleaner_compacts_all_then_pauses(
    tmp_path, nursery, autojump_clock, monkeypatch
):
    async def at_once(step, *arguments):
        return step(*arguments)

    monkeypatch.setattr(log_cleaner, "run_blocking", at_once)
    harness = harness_with(tmp_path, "a", "b")
    a, b = (write(harness, name) for name in "ab")
    nursery.start_soon(cleaner_of(harness, CleanerSettings(backoff=40.0)).run)
    await trio.sleep(1)
    assert is_compacted(a)
    assert is_compacted(b)
    write(harness, "a")
    await trio.sleep(38)
    assert not is_compacted(a)
    await trio.sleep(2)
    assert is_compacted(a)


async def test_disabled_cleaner_does_nothing(tmp_path):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    await cleaner_of(harness, CleanerSettings(enabled=False)).run()
    assert set(map(len, values(log).values())) == {3}


async def test_log_exceeding_memory_is_retried_later(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    leader = write(harness, "a")
    build_map = Round.build_map

    def too_large(_round):
        monkeypatch.setattr(Round, "build_map", build_map)
        raise MemoryError("no room for the map")

    monkeypatch.setattr(Round, "build_map", too_large)
    cleaner = cleaner_of(harness)
    assert not await cleaner.clean_dirtiest()
    assert await cleaner.clean_dirtiest()
    assert is_compacted(leader)


async def test_failed_round_is_repeated_among_those_of_others(tmp_path, monkeypatch):
    """The failed log is tried again although another log is always due for cleaning."""
    harness = harness_with(tmp_path, "a", "b")
    write(harness, "a", rounds=9)
    build_map, tried = Round.build_map, []

    def fails_on_a(cleaning):
        name = cleaning.directory.name.partition("-")[0]
        tried.append(name)
        if name == "a":
            raise MemoryError("no room for the map")
        return build_map(cleaning)

    monkeypatch.setattr(Round, "build_map", fails_on_a)
    cleaner = cleaner_of(harness)
    for _ in range(12):
        write(harness, "b")
        await cleaner.clean_dirtiest()
    assert "".join(tried) == "ababbabbbbab"  # after one, two, four rounds


def test_repeated_failures_wait_for_bounded_rounds():
    waiting, rounds = _Postponed(), []
    for _ in range(100):
        waiting.fail()
        rounds.append(waiting.rounds_before)
    assert rounds == [1, 2, 4, 8, 16, 32] + [64] * 94
    assert waiting == _Postponed(rounds_before=64, rounds_next=64), "nothing grows"


async def test_disk_failure_in_round_is_reported_leaving_log(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    write(harness, "a")

    def fails(_round):
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(Round, "build_map", fails)
    cleaner = cleaner_of(harness)
    assert await cleaner.clean_dirtiest()
    assert harness.directory.offline is not None
    assert not await cleaner.clean_dirtiest()


async def test_log_with_unknown_dirt_is_skipped(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a", "b")
    write(harness, "a")
    b = write(harness, "b")
    dirt_of = log_cleaner.dirt_of

    def fails(log, **options):
        if log is not b.log:
            raise KafkaError(E.KAFKA_STORAGE_ERROR, "the disk is gone")
        return dirt_of(log, **options)

    monkeypatch.setattr(log_cleaner, "dirt_of", fails)
    cleaner = cleaner_of(harness)
    assert await cleaner.clean_dirtiest()
    assert is_compacted(b)
    assert not await cleaner.clean_dirtiest()


async def test_only_logs_of_working_directory_are_due(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    replica, cleaner = harness.partitions.find(TopicPartition("a", 0)), cleaner_of(harness)
    assert cleaner._dirt(replica, log) is not None
    with monkeypatch.context() as patched:
        patched.setattr(harness.directories, "holding", lambda _key: None)
        assert cleaner._dirt(replica, log) is None
    harness.directory.health.fail("the disk is gone")
    assert cleaner._dirt(replica, log) is None


async def test_log_removed_during_search_is_not_compacted(tmp_path, monkeypatch):
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    harness = harness_with(tmp_path, "a", "b")
    write(harness, "a")

    async def meanwhile():
        harness.partitions.find(TopicPartition("a", 0)).release_log()

    monkeypatch.setattr(pacing, "yield_to_loop", meanwhile)
    planned = Work(monkeypatch, log_cleaner, "plan_round")
    assert not await cleaner_of(harness).clean_dirtiest()
    assert planned.calls == 0


async def test_many_logs_are_examined_in_several_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    names = [f"t{number}" for number in range(8)]
    harness = harness_with(tmp_path, *names)
    for name in names:
        append(harness, b"a", name=name)
    looked = Work(monkeypatch, LogCleaner, "_dirt")
    await cleaner_of(harness).clean_dirtiest()
    assert (looked.calls, looked.in_longest_step) == (8, 1)


async def test_segments_changed_meanwhile_are_not_called_compacted(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    monkeypatch.setattr(log, "replace_segments", lambda *_: False)
    assert not await cleaner_of(harness).clean_dirtiest()
    assert ("a", 0) not in harness.directory.offsets.cleaner_offsets
    assert not [path for path in log.directory.iterdir() if path.suffix == ".cleaned"]


async def test_log_truncated_after_swap_is_compacted_again(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    sync_names = log_cleaner._sync_names

    def cut_then(partition_log):
        sync_names(partition_log)
        log.truncate_to(50)

    monkeypatch.setattr(log_cleaner, "_sync_names", cut_then)
    assert not await cleaner_of(harness).clean_dirtiest()
    assert ("a", 0) not in harness.directory.offsets.cleaner_offsets


async def test_replica_without_directory_is_not_compacted(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    write(harness, "a")
    build_map = Round.build_map

    def forgotten(cleaning):
        end_offset = build_map(cleaning)
        monkeypatch.setattr(harness.directories, "holding", lambda *_: None)
        return end_offset

    monkeypatch.setattr(Round, "build_map", forgotten)
    assert not await cleaner_of(harness).clean_dirtiest()


@pytest.mark.parametrize("is_gone", [True, False])
async def test_missing_files_mean_disk_failure_unless_replica_removed(
    tmp_path, monkeypatch, is_gone
):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log

    def missing(_cleaning):
        if is_gone:
            with log.names.taken_away():
                pass
        raise FileNotFoundError("no such segment")

    monkeypatch.setattr(Round, "build_map", missing)
    assert await cleaner_of(harness).clean_dirtiest() is not is_gone


class Noting(Files):
    """Records which files were made durable, in order."""

    def __init__(self):
        super().__init__()
        self.synced = []

    def fsync_directory(self, path):
        self.synced.append(path.name)
        super().fsync_directory(path)

    def unlink(self, path, *rest):
        self.synced.append(f"-{path.name}")
        super().unlink(path, *rest)


async def test_compaction_is_durable_before_and_after_renames(tmp_path, monkeypatch):
    """A leader in write-behind has records that are on no disk; compaction leaves offset gaps between them."""
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    log._flushing.flushed_offset = 0
    files = Noting()
    monkeypatch.setattr(log, "files", files)
    steps = []

    async def run_blocking(step, *arguments):
        steps.append(getattr(step, "__name__", "other"))
        return await trio.to_thread.run_sync(step, *arguments)

    monkeypatch.setattr(log_cleaner, "run_blocking", run_blocking)
    assert await cleaner_of(harness).clean_dirtiest()
    assert log.flushed_offset == log.log_end_offset
    assert steps.index("run") < steps.index("write_checkpoints")
    assert "a-0" in files.synced


# -- checkpoints, retention, deletion


def maintained(harness, clock_ms=now_ms, **times):
    return Maintenance(harness.partitions, harness.directories, MaintenanceTimes(**times), clock_ms)


async def test_failing_checkpoint_is_tried_again(tmp_path, nursery, autojump_clock, monkeypatch):
    harness = open_harness(tmp_path)
    saved = []

    async def save(watermarks):
        saved.append(dict(watermarks))
        raise KafkaError(E.KAFKA_STORAGE_ERROR, "the disk is gone")

    monkeypatch.setattr(harness.directories, "save_checkpoints", save)
    nursery.start_soon(maintained(harness, checkpoint=10.0)._checkpoint)
    await trio.sleep(35)
    assert len(saved) == 3


@pytest.mark.parametrize(("retention", "times"), [(10.0, [10, 20, 30]), (40.0, [30, 70, 110])])
async def test_first_retention_comes_within_the_interval(
    tmp_path, nursery, autojump_clock, monkeypatch, retention, times
):
    harness, at, began = open_harness(tmp_path), [], trio.current_time()

    async def retained(_maintenance):
        at.append(round(trio.current_time() - began))

    monkeypatch.setattr(Maintenance, "retain_once", retained)
    nursery.start_soon(maintained(harness, retention=retention)._retain)
    await trio.sleep(119)
    assert at[:3] == times


@pytest.mark.parametrize(
    ("part", "once", "times", "expected"),
    [
        ("_purge", "purge_once", {}, [15, 30, 45]),
        ("_expire_producers", "expire_producers_once", {"producer_expiration": 20.0}, [20, 40]),
        ("_flush", "flush_once", {"flush": 25.0}, [25, 50]),
        ("_flush", "flush_once", {}, []),
    ],
)
async def test_each_part_begins_after_its_first_pause(
    tmp_path, nursery, autojump_clock, monkeypatch, part, once, times, expected
):
    harness, at, began = open_harness(tmp_path), [], trio.current_time()

    async def noted(_maintenance):
        at.append(round(trio.current_time() - began))

    monkeypatch.setattr(Maintenance, once, noted)
    nursery.start_soon(getattr(maintained(harness, **times), part))
    await trio.sleep(59)
    assert at == expected


@pytest.mark.parametrize("is_clean", [True, False])
async def test_only_unclean_logs_are_checked_before_retention(tmp_path, monkeypatch, is_clean):
    harness = with_logs(tmp_path, 1)
    harness.partitions.close()
    harness.directory.close(broker_epoch=1 if is_clean else None, high_watermarks={("t", 0): 1})
    for file in (tmp_path / "t-0").glob("*.log"):
        os.utime(file, (0, 0))
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition()))
    checked, check = [], Partition.check

    async def noted(one):
        checked.append(one.name)
        await check(one)

    monkeypatch.setattr(Partition, "check", noted)
    await maintained(again).retain_once()
    assert again.partitions.find(TopicPartition("t", 0)).open_log is not None
    assert checked == ([] if is_clean else ["t-0"])


def with_logs(tmp_path, count):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition()] * count))
    for index in range(count):
        append(harness, b"a", index=index)
    harness.flush()
    return harness


async def test_failing_retention_delays_no_other_log(tmp_path, monkeypatch):
    harness = with_logs(tmp_path, 3)
    apply = PartitionLog.apply_retention
    failing = harness.leader("t", 1).log

    async def check(code):
        applied = []

        def retain(log, *arguments):
            if log is failing:
                raise KafkaError(code, "as it is")
            applied.append(log)
            return apply(log, *arguments)

        monkeypatch.setattr(PartitionLog, "apply_retention", retain)
        assert await maintained(harness).retain_once() == 0
        assert [log.directory.name for log in applied] == ["t-0", "t-2"]

    await check(E.KAFKA_STORAGE_ERROR)
    await check(E.OFFSET_OUT_OF_RANGE)


async def test_log_truncated_during_retention_waits_for_next_round(tmp_path, monkeypatch, caplog):
    harness = with_logs(tmp_path, 2)
    date_oldest = PartitionLog.date_oldest

    async def check(code, is_told):
        def dating(log, *arguments):
            if log is harness.leader("t", 0).log:
                raise KafkaError(code, "it was cut")
            return (yield from date_oldest(log, *arguments))

        monkeypatch.setattr(PartitionLog, "date_oldest", dating)
        caplog.clear()
        assert await maintained(harness).retain_once() == 0
        assert bool(caplog.records) == is_told

    await check(E.NOT_LEADER_OR_FOLLOWER, False)
    await check(E.KAFKA_STORAGE_ERROR, True)


async def test_retention_and_flush_of_many_logs_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    harness = with_logs(tmp_path, 8)
    retained = Work(monkeypatch, PartitionLog, "apply_retention")
    await maintained(harness).retain_once()
    assert (retained.calls, retained.in_longest_step) == (8, 1)
    looked = Work(monkeypatch, Maintenance, "_flush_is_due")
    await maintained(harness).flush_once()
    assert (looked.calls, looked.in_longest_step) == (8, 1)


async def test_deleted_files_stay_for_their_delay_in_milliseconds(tmp_path, monkeypatch, caplog):
    harness = open_harness(tmp_path)
    asked = []

    async def purge(delay_ms):
        asked.append(delay_ms)
        raise KafkaError(E.KAFKA_STORAGE_ERROR, "the disk is gone")

    monkeypatch.setattr(harness.directories, "purge", purge)
    await maintained(harness, delete_delay=1.5).purge_once()
    assert asked == [1500]
    assert "the disk is gone" in caplog.text


async def test_lagging_followers_are_checked_twice_per_allowed_lag(
    tmp_path, nursery, autojump_clock, monkeypatch
):
    harness, at, began = with_logs(tmp_path, 1), [], trio.current_time()
    monkeypatch.setattr(
        Partition, "drop_lagging_followers", lambda _: at.append(trio.current_time() - began)
    )
    nursery.start_soon(maintained(harness, replica_lag_max=60.0)._drop_lagging)
    await trio.sleep(95)
    assert at == [30, 60, 90]


def test_the_defaults_are_kafkas():
    times = MaintenanceTimes()
    expected = {
        "checkpoint": 5.0,
        "retention": 300.0,
        "replica_lag_max": 30.0,
        "producer_expiration": 600.0,
        "delete_delay": 60.0,
        "flush": float("inf"),
    }
    check_each(expected.items(), lambda one: _equal(getattr(times, one[0]), one[1]))


def _equal(found, expected):
    assert found == expected


async def test_log_with_abandoned_round_yields_to_others(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a", "b")
    dirtiest, other = write(harness, "a"), write(harness, "b", rounds=2)
    build_map, tried = Round.build_map, []

    def given_up(this):
        tried.append(this)
        if len(tried) == 1:
            raise CleaningStopped("the log was cut")
        return build_map(this)

    monkeypatch.setattr(Round, "build_map", given_up)
    cleaner = cleaner_of(harness)
    done = [
        (await cleaner.clean_dirtiest(), is_compacted(dirtiest), is_compacted(other))
        for _ in range(3)
    ]
    assert done == [(False, False, False), (True, False, True), (True, True, True)]
