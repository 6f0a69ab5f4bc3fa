"""A large response is appended a few batches at a time; truncation of many logs writes one checkpoint, and that of many
segments is done a few at a time.
"""

import pytest

from tests.broker.batches import append
from tests.broker.partitions.replicas import until
from tests.broker.replication.stub_leader import (
    NEWEST,
    OLDEST,
    answered,
    data,
    follow,
    followed,
    record,
)
from tests.broker.replication.test_fetcher_rules import OUT_OF_RANGE, once
from tests.counted_work import Work
from trimaran.broker.partitions import follower as follower_module
from trimaran.broker.partitions.follower import PartitionFollower, in_runs
from trimaran.broker.replication import fetcher
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.offset_checkpoints import OffsetCheckpoints
from trimaran.log.disk.checkpoints import RECOVERY_POINTS, read_offsets
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.partitions import fetched_batches
from trimaran.log.segments.segments import Segments
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import EpochEndOffset

BATCHES = 100
PER_TURN = 10


@pytest.fixture(autouse=True)
def little(monkeypatch):
    monkeypatch.setattr(fetcher, "BATCHES_AT_ONCE", PER_TURN)


async def test_many_small_batches_are_appended_in_turns(tmp_path, monkeypatch):
    checked = Work(monkeypatch, fetched_batches, "check_crc")
    async with followed(tmp_path) as (harness, leader):
        records = b"".join(record(1 + number) for number in range(BATCHES))
        leader.answer = once(answered(data(records=records, high_watermark=BATCHES)))
        follow(harness)
        held = harness.partitions.find(TopicPartition("t", 0))
        await until(lambda: held.high_watermark == BATCHES)
        assert held.log.log_end_offset == 1 + BATCHES
    assert checked.calls == BATCHES
    assert checked.in_longest_step == PER_TURN


async def test_data_behind_end_of_epoch_is_ignored(tmp_path, monkeypatch):
    async with followed(tmp_path) as (harness, leader):
        records = b"".join(record(1 + number) for number in range(BATCHES))
        leader.answer = once(answered(data(records=records, high_watermark=BATCHES)))
        original = PartitionFollower.append

        def append_and_end(follower, some):
            taken = original(follower, some)
            if follower.epoch == 1:
                leader.answer = once()
                follow(harness, 2)
            return taken

        monkeypatch.setattr(PartitionFollower, "append", append_and_end)
        follow(harness)
        await until(lambda: len(leader.fetches) >= 4)
        held = harness.partitions.find(TopicPartition("t", 0))
        assert held.log.log_end_offset == 1 + PER_TURN
        assert held.high_watermark == 0, "nor is the leader's word taken"


async def test_truncations_are_noted_together_in_thread(tmp_path, monkeypatch):
    many = 12
    async with followed(tmp_path, records=3, partitions=many) as (harness, leader):
        harness.directory.save_checkpoints()
        saved = Work(monkeypatch, OffsetCheckpoints, "_save")
        diverging = EpochEndOffset(epoch=0, end_offset=2)
        answers = [data(index, diverging_epoch=diverging) for index in range(many)]
        leader.answer = once(answered(*answers))
        follow(harness, partitions=many)
        logs = [harness.partitions.find(TopicPartition("t", index)).log for index in range(many)]
        await until(lambda: all(log.log_end_offset == 2 for log in logs))
        assert saved.calls == saved.elsewhere <= 2
        points = read_offsets(tmp_path / RECOVERY_POINTS, REAL_FILES)
        assert points == {("t", index): 2 for index in range(many)}


async def test_discarded_log_is_noted_in_thread(tmp_path, monkeypatch):
    async with followed(tmp_path, records=3) as (harness, leader):
        harness.directory.save_checkpoints()
        saved = Work(monkeypatch, OffsetCheckpoints, "_save")
        leader.answer = once(answered(data(log_start_offset=3)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_start_offset == 3
        assert saved.calls == saved.elsewhere > 0


async def test_epoch_end_during_note_keeps_log(tmp_path, monkeypatch):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.answer = once(answered(data(log_start_offset=3)))
        original = LogDirectories.lower_recovery_points

        async def lower_and_end(directories, points):
            await original(directories, points)
            leader.answer = once()
            follow(harness, 2)

        monkeypatch.setattr(LogDirectories, "lower_recovery_points", lower_and_end)
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        log = harness.partitions.find(TopicPartition("t", 0)).log
        assert (log.log_start_offset, log.log_end_offset) == (0, 3)


@pytest.mark.parametrize(
    ("answer", "offsets", "kept"),
    [
        ({"diverging_epoch": EpochEndOffset(epoch=0, end_offset=3)}, {}, (0, 3)),
        ({"diverging_epoch": EpochEndOffset(epoch=0, end_offset=0)}, {}, (0, 0)),
        ({"error_code": OUT_OF_RANGE}, {NEWEST: (5, 0), OLDEST: (0, 0)}, (0, 5)),
        ({"error_code": OUT_OF_RANGE}, {NEWEST: (90, 0), OLDEST: (80, 0)}, (80, 80)),
        ({"log_start_offset": 30}, {}, (30, 30)),
    ],
)
async def test_truncation_of_many_segments_takes_turns(
    tmp_path, monkeypatch, answer, offsets, kept
):
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)
    monkeypatch.setattr(follower_module, "SEGMENTS_AT_ONCE", 4)
    async with followed(tmp_path, records=0) as (harness, leader):
        log = harness.leader().log
        for _ in range(30):
            append(harness, b"mine")
            log.roll(0)
        harness.flush()
        leader.offsets = offsets
        leader.answer = once(answered(data(**answer)))
        dropped = Work(monkeypatch, Segments, "drop_last")
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert (log.log_start_offset, log.log_end_offset) == kept
        assert dropped.calls >= 25
        assert dropped.in_longest_step <= 5


def test_runs_are_whole_batches_and_lose_no_byte():
    records = memoryview(b"".join(record(number, b"x" * number) for number in range(25)) + b"torn")
    runs = list(in_runs(records, 10))
    assert b"".join(runs) == bytes(records)
    assert [run[:8] for run in runs] == [(10 * n).to_bytes(8, "big") for n in range(3)]
