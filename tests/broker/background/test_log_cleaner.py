"""The log cleaner in a broker: which log it chooses, what readers see meanwhile, and how rounds end early."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.groups.driver import GROUP_DEPENDENCIES
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.background import log_cleaner
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner, Pace
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.compaction.cleaning import CleanerLimits, CleaningStopped, Round
from trimaran.log.directories.offset_checkpoints import CollectedCheckpoints
from trimaran.log.disk.checkpoints import CLEANER_OFFSETS
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576"}


def harness_with(tmp_path, *names, log_segment_bytes="1048576", **configs):
    harness = open_harness(tmp_path)
    harness.set_image(
        *(topic(name, partition()) for name in names),
        configs={(TOPIC_RESOURCE, name): {**COMPACTED, **configs} for name in names},
    )
    return harness


def write(harness, name, rounds=3, keys=20, value=b"x" * 100):
    """Writes several sealed segments with the same keys."""
    leader = harness.leader(name)
    for number in range(rounds):
        for key in range(keys):
            data = bytearray(build_batch([NewRecord(b"k%d" % key, b"%d" % number + value, 1000)]))
            leader.append(memoryview(data), list(iter_batches(data)))
        leader.log.roll(0)
    harness.flush()
    return leader


def cleaner_of(harness, settings=None):
    return LogCleaner(
        harness.partitions,
        harness.directories,
        lambda: settings or CleanerSettings(),
        lambda: 2000,
    )


def values(log):
    found, offset = {}, 0
    while offset < log.log_end_offset:
        views = list(iter_batches(log.read_bytes(offset, 1 << 20, upto_offset=log.log_end_offset)))
        for view in views:
            for record in decode_records(view):
                found.setdefault(record.key, []).append(record.value[:1])
        offset = views[-1].next_offset
    return found


async def test_dirtiest_log_is_compacted_and_checkpointed(tmp_path):
    harness = harness_with(tmp_path, "a", "b")
    a, b = write(harness, "a", rounds=1), write(harness, "b", rounds=3)
    cleaner = cleaner_of(harness)
    assert await cleaner.clean_dirtiest()
    assert await cleaner.clean_dirtiest()
    assert not await cleaner.clean_dirtiest(), "nothing is dirty any more"
    for leader in (a, b):
        assert set(map(len, values(leader.log).values())) == {1}
    lines = (tmp_path / "cleaner-offset-checkpoint").read_text().rstrip().splitlines()
    assert lines[2:] == ["a 0 20", "b 0 60"]
    assert b.log.log_end_offset == 60
    write(harness, "b", rounds=1)
    assert not await cleaner.clean_dirtiest(), "half of it is dirty, not more"
    write(harness, "b", rounds=1)
    assert await cleaner.clean_dirtiest()
    assert set(map(len, values(b.log).values())) == {1}


async def test_nothing_above_the_high_watermark_is_compacted(tmp_path):
    """P13, KAFKA-13194."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("a", partition((11, 12))), configs={(TOPIC_RESOURCE, "a"): COMPACTED})
    leader = write(harness, "a")
    assert leader.high_watermark.offset == 0
    assert not await cleaner_of(harness).clean_dirtiest()


async def test_reader_finishes_on_old_files_during_swap(tmp_path):
    """S6."""
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    piece = log.read(0, 1 << 20, upto_offset=log.log_end_offset, min_one=True)
    before = piece.read()
    assert await cleaner_of(harness).clean_dirtiest()
    log.purge()
    assert piece.read() == before
    again = log.read(0, 1 << 20, upto_offset=log.log_end_offset, min_one=True)
    assert again.read() != before


def store_of(log):
    loader = CoordinatorLoader(serde_of())
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        offset = loader.feed(log.read_bytes(offset, 1 << 16, upto_offset=log.log_end_offset))
    shard = GroupCoordinatorShard(GroupLimits(), lambda *_: True, GROUP_DEPENDENCIES)
    loader.replay_into(shard)
    return {"groups": shard.store.of("classic"), "offsets": shard.store.offsets}


async def test_compaction_of_offsets_bounds_log_size(tmp_path):
    harness = harness_with(tmp_path, CONSUMER_OFFSETS)
    leader = harness.leader(CONSUMER_OFFSETS)
    for turn in range(30):
        for group in range(10):
            key = OffsetCommitKey(group=f"g{group}", topic="t", partition=0)
            gone = group == 3 and turn == 29
            value = (
                None if gone else OffsetCommitValue(offset=turn, metadata="", commit_timestamp=1)
            )
            data = bytearray(build_batch([serde_of().encode(GroupRecord(key, value), 1000)]))
            leader.append(memoryview(data), list(iter_batches(data)))
        if turn % 10 == 9:
            leader.log.roll(0)
    harness.flush()
    before, size = store_of(leader.log), leader.log.size_bytes
    assert await cleaner_of(harness).clean_dirtiest()
    assert store_of(leader.log) == before
    assert sorted(before["offsets"]) == sorted(f"g{i}" for i in range(10) if i != 3)
    assert leader.log.size_bytes < size / 20


async def test_truncation_during_round_keeps_remaining_records(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    cleaner = cleaner_of(harness)
    replace = log.replace_segments

    def cut_first(old, cleaned):
        monkeypatch.setattr(log, "replace_segments", replace)
        log.truncate_to(30)
        return replace(old, cleaned)

    monkeypatch.setattr(log, "replace_segments", cut_first)
    assert not await cleaner.clean_dirtiest()
    assert log.log_end_offset == 30
    assert sorted(map(len, values(log).values())) == [1] * 10 + [2] * 10
    assert not [p for p in log.directory.iterdir() if p.suffix in (".cleaned", ".swap")]


async def test_records_after_truncation_do_not_count_as_read(tmp_path, monkeypatch):
    """The truncated segment takes new records and is sealed again."""
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    clean = Round.clean

    def cut_and_grow(cleaning, sources):
        monkeypatch.setattr(Round, "clean", clean)
        cleaned = clean(cleaning, sources)
        log.truncate_to(50)
        write(harness, "a", rounds=1, value=b"new")
        return cleaned

    monkeypatch.setattr(Round, "clean", cut_and_grow)
    cleaner = cleaner_of(harness)
    assert not await cleaner.clean_dirtiest()
    assert log.log_end_offset == 70
    assert set(map(len, values(log).values())) == {3, 4}
    assert await cleaner.clean_dirtiest()
    assert set(map(len, values(log).values())) == {1}


async def test_replica_deleted_during_checkpoint_leaves_no_entry(tmp_path, monkeypatch):
    """Otherwise its successor would count as compacted up to there, although it never was."""
    harness = harness_with(tmp_path, "t")
    write(harness, "t")
    written = []

    async def late(step, *arguments):
        if isinstance(arguments[0], CollectedCheckpoints) and CLEANER_OFFSETS in arguments[0].files:
            written.append(arguments[0].files[CLEANER_OFFSETS])
            harness.set_image()
        return await trio.to_thread.run_sync(step, *arguments)

    monkeypatch.setattr(log_cleaner, "run_blocking", late)
    await cleaner_of(harness).clean_dirtiest()
    assert written == [{("t", 0): 60}]
    assert ("t", 0) not in harness.directory.offsets.cleaner_offsets
    harness.set_image(topic("t", partition()))
    harness.leader("t")
    assert "t 0" not in (tmp_path / CLEANER_OFFSETS).read_text()


async def test_truncation_during_checkpoint_lowers_the_cleaned_offset(tmp_path, monkeypatch):
    """Otherwise later records at those offsets would never be compacted."""
    harness = harness_with(tmp_path, "t")
    log = write(harness, "t").log

    async def late(step, *arguments):
        if isinstance(arguments[0], CollectedCheckpoints) and CLEANER_OFFSETS in arguments[0].files:
            monkeypatch.undo()
            log.truncate_to(50)
        return await trio.to_thread.run_sync(step, *arguments)

    monkeypatch.setattr(log_cleaner, "run_blocking", late)
    assert not await cleaner_of(harness).clean_dirtiest()
    assert log.log_end_offset == 50
    assert harness.directory.offsets.cleaner_offsets["t", 0] == 50
    assert "t 0 50" in (tmp_path / CLEANER_OFFSETS).read_text()


async def test_log_truncated_during_read_is_not_called_damaged(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    build_map = Round.build_map

    def cut_first(cleaning):
        monkeypatch.setattr(Round, "build_map", build_map)
        log.truncate_to(30)
        return build_map(cleaning)

    monkeypatch.setattr(Round, "build_map", cut_first)
    cleaner = cleaner_of(harness)
    assert not await cleaner.clean_dirtiest()
    write(harness, "a", rounds=2)
    assert await cleaner.clean_dirtiest()
    assert set(map(len, values(log).values())) == {1}


async def test_replica_removed_during_read_is_not_flushed(tmp_path, monkeypatch):
    """By then the replica's files have been renamed, and a new replica has the old name."""
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    log._flushing.flushed_offset = 0  # as write-behind does
    build_map = Round.build_map

    def recreated(cleaning):
        end_offset = build_map(cleaning)
        harness.set_image()
        harness.set_image(topic("a", partition()))
        _ = harness.leader("a").log
        return end_offset

    monkeypatch.setattr(Round, "build_map", recreated)
    assert not await cleaner_of(harness).clean_dirtiest()
    assert harness.directory.offline is None


async def test_damaged_log_is_not_compacted(tmp_path, caplog):
    harness = harness_with(tmp_path, "a", "b")
    a = write(harness, "a", rounds=4)
    write(harness, "b")
    path = next(iter(sorted(a.log.directory.glob("*.log"))))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    cleaner = cleaner_of(harness)
    assert await cleaner.clean_dirtiest()
    assert "wrong CRC at position 0" in caplog.text
    assert await cleaner.clean_dirtiest(), "the other one"
    assert not await cleaner.clean_dirtiest()
    assert path.read_bytes() == data
    assert harness.directory.offline is None


async def test_batch_too_large_for_map_makes_log_uncleanable(tmp_path, caplog):
    harness = harness_with(tmp_path, "a")
    leader = harness.leader("a")
    data = bytearray(build_batch([NewRecord(b"%d" % i, b"v", 1000) for i in range(100)]))
    leader.append(memoryview(data), list(iter_batches(data)))
    leader.log.roll(0)
    harness.flush()
    cleaner = cleaner_of(harness, CleanerSettings(limits=CleanerLimits(map_bytes=1024)))
    assert await cleaner.clean_dirtiest()
    assert "log.cleaner.dedupe.buffer.size must be larger" in caplog.text
    assert not await cleaner.clean_dirtiest()


async def test_log_too_large_for_memory_delays_no_other(tmp_path, caplog):
    """The large log is the dirtiest one in every round."""
    harness = harness_with(tmp_path, "a", "b")
    write(harness, "a").log.skip_to(1 << 45, 0)
    write(harness, "a", rounds=1)
    log = write(harness, "b").log
    cleaner = cleaner_of(harness, CleanerSettings(limits=CleanerLimits(map_bytes=1 << 60)))
    done = [await cleaner.clean_dirtiest() for _ in range(3)]
    assert caplog.text.count("compaction of a-0: not enough memory") == 2
    assert done == [False, True, False]
    assert set(map(len, values(log).values())) == {1}


async def test_cancelled_cleaner_stops_its_thread(tmp_path):
    harness = harness_with(tmp_path, "a")
    log = write(harness, "a").log
    slow = CleanerSettings(bytes_per_second_max=1)  # hours
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cleaner_of(harness, slow).run)
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
    assert set(map(len, values(log).values())) == {3}


def test_stopped_pace_interrupts_cleaning():
    pace = Pace(float("inf"))
    pace.pause(1 << 40)
    pace.stop()
    with pytest.raises(CleaningStopped):
        pace.pause(1)


async def test_delete_only_log_is_not_compacted(tmp_path):
    harness = harness_with(tmp_path, "a", **{"cleanup.policy": "delete"})
    log = write(harness, "a").log
    assert not await cleaner_of(harness).clean_dirtiest()
    assert set(map(len, values(log).values())) == {3}


async def test_dirtiest_log_is_compacted_before_its_neighbours(tmp_path):
    harness = harness_with(tmp_path, "a", "b", "c")
    cleaner = cleaner_of(harness)
    for name in ("a", "c"):
        write(harness, name, rounds=1)
        assert await cleaner.clean_dirtiest()
        write(harness, name, rounds=2)  # two thirds of the log are dirty
    write(harness, "b", rounds=2)
    assert await cleaner.clean_dirtiest()
    counts = {name: set(map(len, values(harness.leader(name).log).values())) for name in "abc"}
    assert counts == {"a": {3}, "b": {1}, "c": {3}}


async def test_altered_rate_applies_from_next_round(tmp_path, monkeypatch):
    harness = harness_with(tmp_path, "a")
    settings = [CleanerSettings()]
    cleaner = LogCleaner(
        harness.partitions, harness.directories, lambda: settings[-1], lambda: 2000
    )
    rates = set()
    monkeypatch.setattr(Pace, "pause", lambda pace, _bytes: rates.add(pace.bytes_per_second_max))
    settings.append(CleanerSettings(bytes_per_second_max=5e6))
    write(harness, "a")
    assert await cleaner.clean_dirtiest()
    assert rates == {5e6}
