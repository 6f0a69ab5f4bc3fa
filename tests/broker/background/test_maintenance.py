"""Retention applies to idle logs, and opens only those that are due."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing

from tests.broker.batches import append, batch
from tests.cluster.data_side import open_harness, partition, registration, topic
from tests.counted_work import Work
from trimaran.broker.background import maintenance
from trimaran.broker.background.maintenance import PURGE_SECONDS, Maintenance, MaintenanceTimes
from trimaran.log.batches.batch import iter_batches
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.disk.checkpoints import RECOVERY_POINTS, read_offsets
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments import scan
from trimaran.log.segments.segments import Segments
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.identity import TopicPartition

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


async def test_old_segments_of_idle_partition_are_removed(tmp_path):
    topics = (topic("old", partition()), topic("new", partition()))
    harness = open_harness(tmp_path)
    harness.set_image(*topics)
    for name in ("old", "new"):
        append(harness, b"a", name=name)
    harness.flush()
    harness.partitions.close()
    harness.directory.close(broker_epoch=1, high_watermarks={("old", 0): 1, ("new", 0): 1})
    [segment] = (tmp_path / "old-0").glob("*.log")
    os.utime(segment, (0, 0))

    again = open_harness(tmp_path)
    again.set_image(*topics)
    maintenance = Maintenance(
        again.partitions, again.directories, MaintenanceTimes(), lambda: now_ms() + HOUR_MS
    )
    await maintenance.retain_once()
    assert again.partitions.find(TopicPartition("old", 0)).open_log is not None
    assert again.partitions.find(TopicPartition("new", 0)).open_log is None

    later = Maintenance(
        again.partitions, again.directories, MaintenanceTimes(), lambda: now_ms() + 2 * WEEK_MS
    )
    assert await later.retain_once() == 2
    assert again.leader("old").log.log_start_offset == 1
    assert not segment.exists()


async def test_thousands_of_segments_are_removed_in_steps(tmp_path, monkeypatch):
    """The files of the segments are not listed all at once either."""
    monkeypatch.setattr("trimaran.broker.background.maintenance.SEGMENTS_AT_ONCE", 10)
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    for _ in range(45):
        append(harness, b"a")
        harness.leader().log.roll(0)
    harness.flush()
    harness.partitions.close()
    harness.directory.close(broker_epoch=1, high_watermarks={("t", 0): 45})
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition()))
    log = again.leader().log
    log.config = replace(log.config, retention_ms=HOUR_MS)
    removed = Work(monkeypatch, Segments, "_remove_files")
    read = Work(monkeypatch, scan, "header_at")
    maintenance = Maintenance(
        again.partitions, again.directories, MaintenanceTimes(), lambda: now_ms() + WEEK_MS
    )
    assert await maintenance.retain_once() == 45
    assert log.log_start_offset == 45
    assert (removed.calls, removed.in_longest_step) == (45, 10)
    assert read.calls >= 45
    assert read.in_longest_step <= 15


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_topic_deleted_during_retention_is_left_alone(tmp_path, monkeypatch, is_made_again):
    """By then its files have been renamed, or a new topic has its name: no segment is rolled in the directory."""
    monkeypatch.setattr(maintenance, "SEGMENTS_AT_ONCE", 10)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    for _ in range(15):
        append(harness, b"a")
        harness.leader().log.roll(0)
    append(harness, b"a")
    harness.flush()
    log = harness.leader().log
    log.config = replace(log.config, retention_ms=HOUR_MS)

    async def others():
        harness.set_image()
        if is_made_again:
            harness.set_image(topic("t", partition()))
            append(harness, b"new")

    monkeypatch.setattr(maintenance, "yield_to_loop", others)
    retention = Maintenance(
        harness.partitions, harness.directories, MaintenanceTimes(), lambda: now_ms() + WEEK_MS
    )
    assert await retention.retain_once() == 10
    assert harness.directory.offline is None
    assert [path.name for path in tmp_path.glob("t-0/*.log")] == (
        [f"{0:020d}.log"] if is_made_again else []
    )


async def test_producers_of_many_logs_expire_in_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition()] * 9))
    for index in range(9):
        append(harness, b"a", index=index, producer_id=7, producer_epoch=0, base_sequence=0)
    expired = Work(monkeypatch, ProducerState, "remove_expired")
    maintenance = Maintenance(
        harness.partitions, harness.directories, MaintenanceTimes(), lambda: now_ms() + 2 * WEEK_MS
    )
    await maintenance.expire_producers_once()
    assert expired.calls == 9
    assert expired.in_longest_step == 1
    assert all(len(harness.leader(index=index).log.producers) == 0 for index in range(9))


async def test_retention_begins_soon_after_the_start(
    tmp_path, autojump_clock, nursery, monkeypatch
):
    harness = open_harness(tmp_path)
    at = []

    async def retained(_maintenance):
        at.append(trio.current_time() - began)

    monkeypatch.setattr(Maintenance, "retain_once", retained)
    began = trio.current_time()
    times = MaintenanceTimes(retention=300.0)
    nursery.start_soon(Maintenance(harness.partitions, harness.directories, times, now_ms)._retain)
    await trio.sleep(700)
    assert [round(time) for time in at] == [30, 330, 630]


async def test_write_behind_syncs_after_flush_ms(tmp_path, nursery):
    """Kafka's log.flush.scheduler.interval.ms sets how often it checks, and flush.ms which logs are due."""
    harness = open_harness(tmp_path, trimaran_log_fsync="none", log_flush_interval_ms="1000")
    harness.set_image(topic("t", partition()))
    nursery.start_soon(harness.group_commit.run)
    clock = [0]
    maintenance = Maintenance(
        harness.partitions, harness.directories, MaintenanceTimes(), lambda: clock[0]
    )
    append(harness, b"a")
    log = harness.leader("t").log
    for clock[0] in (0, 999):
        await maintenance.flush_once()
        await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_offset == 0
    clock[0] = 1000
    rounds = harness.group_commit.flushes
    await maintenance.flush_once()
    with trio.fail_after(20):
        while harness.group_commit.flushes == rounds:
            await trio.lowlevel.checkpoint()
    assert log.flushed_offset == 1
    append(harness, b"b")
    await maintenance.flush_once()  # the interval begins now
    await trio.testing.wait_all_tasks_blocked()
    assert log.flushed_offset == 1


async def test_flushes_are_requested_when_due(tmp_path, monkeypatch):
    harness = open_harness(tmp_path, trimaran_log_fsync="none", log_flush_interval_ms="1000")
    harness.set_image(topic("t", partition()))
    asked, clock = [], [0]
    monkeypatch.setattr(
        harness.group_commit, "flush_soon", lambda log: asked.append((clock[0], log))
    )
    maintenance = Maintenance(
        harness.partitions, harness.directories, MaintenanceTimes(), lambda: clock[0]
    )
    append(harness, b"a")
    for clock[0] in (5, 1004, 1005, 1006, 2005, 2006):
        await maintenance.flush_once()
    log = harness.leader("t").log
    assert asked == [(1005, log), (2006, log)]


async def test_checkpoint_of_many_logs_is_collected_in_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition()] * 11))
    for index in range(11):
        append(harness, b"a", index=index)
    harness.flush()
    noted = Work(monkeypatch, LogDirectory, "_note_offsets")
    await harness.directories.save_checkpoints(at_once(harness.partitions.watermarks()))
    assert (noted.calls, noted.in_longest_step) == (11, 1)
    points = read_offsets(tmp_path / RECOVERY_POINTS, REAL_FILES)
    assert points == {("t", index): 1 for index in range(11)}


async def test_records_synced_meanwhile_start_no_flush_interval(tmp_path, nursery):
    harness = open_harness(tmp_path, trimaran_log_fsync="none", log_flush_interval_ms="1000")
    harness.set_image(topic("t", partition()))
    clock = [0]
    maintenance = Maintenance(
        harness.partitions, harness.directories, MaintenanceTimes(), lambda: clock[0]
    )
    append(harness, b"a")
    log = harness.leader("t").log
    await maintenance.flush_once()
    log.flush()
    assert log.flushed_offset == 1
    clock[0] = 500
    await maintenance.flush_once()  # no unsynced records are left
    append(harness, b"b")
    clock[0] = 1000
    nursery.start_soon(harness.group_commit.run)
    await maintenance.flush_once()
    await trio.testing.wait_all_tasks_blocked()
    assert log.flushed_offset == 1


@pytest.mark.parametrize(
    ("configs", "age_ms", "segments", "is_due"),
    [
        ({"retention.ms": "1000"}, 1000, 1, False),
        ({"retention.ms": "1000"}, 1001, 1, True),
        ({"retention.ms": "0"}, 1, 1, True),
        ({"retention.ms": "-1"}, WEEK_MS * 100, 1, False),
        ({"retention.bytes": "SIZE"}, 0, 1, False),
        ({"retention.bytes": "LESS"}, 0, 1, True),
        ({"retention.bytes": "0"}, 0, 1, True),
        ({"retention.bytes": "-1"}, 0, 1, False),
        ({"cleanup.policy": "compact"}, 0, 1, False),
        ({"cleanup.policy": "compact"}, 0, 2, True),
        ({}, 0, 2, False),
    ],
)
async def test_idle_log_is_opened_if_retention_is_due(tmp_path, configs, age_ms, segments, is_due):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    for number in range(segments):
        append(harness, b"%d" % number)
        if number < segments - 1:
            harness.leader("t").log.roll(0)
    harness.flush()
    harness.partitions.close()
    harness.directory.close(broker_epoch=1, high_watermarks={("t", 0): segments})
    files = sorted((tmp_path / "t-0").glob("*.log"))
    for file in files:
        os.utime(file, (1_000_000, 1_000_000))
    size = sum(file.stat().st_size for file in files)
    sizes = {"SIZE": str(size), "LESS": str(size - 1)}
    configs = {key: sizes.get(value, value) for key, value in configs.items()}

    again = open_harness(tmp_path)
    again.set_image(
        topic("t", partition()),
        configs={(TOPIC_RESOURCE, "t"): {"retention.bytes": "-1", "retention.ms": "-1"} | configs},
    )
    maintenance = Maintenance(
        again.partitions, again.directories, MaintenanceTimes(), lambda: 1_000_000_000 + age_ms
    )
    await maintenance.retain_once()
    assert (again.partitions.find(TopicPartition("t", 0)).open_log is not None) == is_due


async def until(is_done):
    """Lets threads finish while the clock of the loop stays where it is; the limit is that of a thread that hangs."""
    began = time.monotonic()
    while not is_done():
        assert time.monotonic() < began + 60, f"{is_done} never says so"
        await trio.lowlevel.checkpoint()


async def test_each_part_does_its_work_at_its_time(tmp_path, mock_clock, nursery):
    harness = open_harness(tmp_path, trimaran_log_fsync="none", log_flush_interval_ms="1000")
    brokers = tuple(registration(node_id) for node_id in (11, 12))
    kept = (topic("t", partition((11, 12))), topic("alone", partition()))
    harness.set_image(*kept, topic("gone", partition()), brokers=brokers)
    for name in ("gone", "alone"):
        append(harness, b"a", name=name)
    data = batch(b"a", timestamp_ms=0, producer_id=5, producer_epoch=0, base_sequence=0)
    leader = harness.leader("t")
    leader.append(data, list(iter_batches(data)))
    harness.set_image(*kept, brokers=brokers)
    harness.now += 100
    times = MaintenanceTimes(
        checkpoint=10, replica_lag_max=60, producer_expiration=50, delete_delay=0, flush=20
    )
    maintenance = Maintenance(
        harness.partitions,
        harness.directories,
        times,
        lambda: WEEK_MS + round(trio.current_time() * 1000),
    )
    nursery.start_soon(harness.group_commit.run)
    nursery.start_soon(maintenance.run)
    began = trio.current_time()
    await trio.testing.wait_all_tasks_blocked()
    expected = {
        "checkpoint": 10,
        "purge": PURGE_SECONDS,
        "lag": 30,
        "flush": 40,  # the first check finds unsynced records, the next one is 20 s later
        "producers": 50,
    }

    def done(name):
        match name:
            case "checkpoint":
                return (tmp_path / "replication-offset-checkpoint").exists()
            case "purge":
                return not list(tmp_path.glob("gone-0*"))
            case "flush":
                return leader.log.flushed_offset == 1
            case "lag":
                return bool(harness.isr_changes.submitted)
            case "producers":
                return len(leader.log.producers) == 0

    for name, seconds in expected.items():
        while trio.current_time() < began + seconds:
            assert not done(name), name
            mock_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked()
        await until(partial(done, name))
