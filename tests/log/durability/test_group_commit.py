import os
import threading
import time
from itertools import groupby

import pytest
import trio
from trio.testing import wait_all_tasks_blocked as settled

from trimaran.log.durability import group_commit
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.log.durability.health import DirectoryHealth, StorageFailure
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.threads import run_blocking

WORKERS = 3


class SmallLog:
    """A log of one file; its flush can be blocked or made to fail."""

    must_flush = needs_only_a_sync = False

    def __init__(self, path):
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        self.log_end_offset = self.flushed_offset = 0
        self.flushes = 0
        self.hold = threading.Event()
        self.hold.set()
        self.error = None

    def append(self):
        os.write(self.fd, b"record")
        self.log_end_offset += 1

    def prepare_flush(self):
        return SmallFlush(self, self.log_end_offset)

    def finish_flush(self, flush):
        self.flushed_offset = flush.upto


class SmallFlush:
    def __init__(self, log, upto):
        self.log, self.upto = log, upto

    def descriptors(self):
        return None

    def run(self):
        assert self.log.hold.wait(10)
        if self.log.error:
            raise self.log.error
        os.fdatasync(self.log.fd)
        self.log.flushes += 1


@pytest.fixture
def logs(tmp_path):
    logs = [SmallLog(tmp_path / str(i)) for i in range(3)]
    yield logs
    for log in logs:
        os.close(log.fd)


async def test_appends_during_a_flush_share_the_next(logs):
    commit = GroupCommit(DirectoryHealth())
    log = logs[0]
    flushed = []
    round_done = trio.Event()

    def note(offset):
        flushed.append(offset)
        if offset == 11:
            round_done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        log.hold.clear()
        log.append()
        commit.mark_dirty(log, note)
        await settled()
        for _ in range(10):
            log.append()
            commit.mark_dirty(log, note)
        assert flushed == []
        log.hold.set()
        await round_done.wait()
        nursery.cancel_scope.cancel()
    assert flushed == [1, 11]
    assert log.flushes == commit.flushes == 2


async def test_each_dirty_log_is_flushed_once(logs):
    commit = GroupCommit(DirectoryHealth())
    told = {}
    all_told = trio.Event()

    def teller(name):
        def tell(offset):
            told[name] = offset
            if len(told) == 4:
                all_told.set()

        return tell

    for i, log in enumerate(logs):
        for _ in range(i + 1):
            log.append()
        commit.mark_dirty(log, teller(i))
    commit.mark_dirty(logs[0], teller("again"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        await all_told.wait()
        nursery.cancel_scope.cancel()
    assert told == {0: 1, 1: 2, 2: 3, "again": 1}
    assert [log.flushes for log in logs] == [1, 1, 1]


async def test_log_does_not_wait_for_anothers_flush(logs):
    """B3: a log does not wait for logs that become dirty meanwhile either."""
    commit = GroupCommit(DirectoryHealth())
    honest, *others = logs
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        for log in others:
            log.hold.clear()
            log.append()
            commit.mark_dirty(log, lambda offset: None)
        await settled()
        for log in others:
            log.append()
            commit.mark_dirty(log, lambda offset: None)
        for number in range(1, 4):
            told = trio.Event()
            honest.append()
            commit.mark_dirty(honest, lambda offset, told=told: told.set())
            await told.wait()
            assert honest.flushed_offset == number
        assert [log.flushes for log in others] == [0, 0]
        for log in others:
            log.hold.set()
        while any(log.flushed_offset < 2 for log in others):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [log.flushes for log in others] == [2, 2]


async def test_many_logs_share_the_threads(tmp_path, logs):
    """The logs share a few threads, and all of them are flushed."""
    more = [SmallLog(tmp_path / f"more-{number}") for number in range(20)]
    commit = GroupCommit(DirectoryHealth())
    for log in more:
        log.append()
        commit.mark_dirty(log, lambda offset: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        while any(log.flushed_offset < 1 for log in more):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert commit.flushes == WORKERS
    for log in more:
        os.close(log.fd)


async def test_forgotten_log_is_not_flushed(logs):
    commit = GroupCommit(DirectoryHealth())
    done = trio.Event()
    commit.mark_dirty(logs[0], lambda offset: pytest.fail("forgotten"))
    commit.mark_dirty(logs[1], lambda offset: done.set())
    commit.forget(logs[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        await done.wait()
        nursery.cancel_scope.cancel()
    assert logs[0].flushes == 0


async def test_log_forgotten_during_flush_gets_no_callback(logs):
    commit = GroupCommit(DirectoryHealth())
    log, other = logs[:2]
    log.hold.clear()
    told = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        commit.mark_dirty(log, lambda offset: pytest.fail("forgotten"))
        commit.mark_dirty(other, lambda offset: told.set())
        await settled()
        commit.forget(log)
        log.hold.set()
        await told.wait()
        await settled()
        nursery.cancel_scope.cancel()
    assert log.flushes == 1


async def test_unsynced_data_is_counted_in_bytes(logs):
    commit = GroupCommit(DirectoryHealth())
    log, other = logs[:2]
    log.hold.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        commit.mark_dirty(log, lambda offset: None, 100)
        await settled()
        commit.mark_dirty(log, lambda offset: None, 10)
        assert commit.unflushed_bytes == 110, "what a thread has is not on disk yet"
        commit.mark_dirty(other, lambda offset: None, 1)
        while other.flushes == 0 or commit.unflushed_bytes == 111:
            await trio.lowlevel.checkpoint()
        assert commit.unflushed_bytes == 110
        commit.forget(log)
        assert commit.unflushed_bytes == 100
        log.hold.set()
        while commit.unflushed_bytes:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_writer_waits_for_its_own_offset(logs):
    commit = GroupCommit(DirectoryHealth())
    log = logs[0]
    log.hold.clear()
    seen = []

    async def writer(offset):
        await commit.wait_flushed(log, offset)
        seen.append((offset, log.flushed_offset))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        async with trio.open_nursery() as writers:
            for offset in (1, 2):
                log.append()
                commit.mark_dirty(log, lambda offset: None, 6)
                writers.start_soon(writer, offset)
                await settled()
            log.hold.set()
        await commit.wait_flushed(log, 2)
        nursery.cancel_scope.cancel()
    assert seen == [(1, 1), (2, 2)]


@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_writer_does_not_wait_for_unflushed_log(logs, in_a_thread):
    commit = GroupCommit(DirectoryHealth())
    log = logs[0]
    log.hold.clear()
    log.append()
    commit.mark_dirty(log, lambda offset: pytest.fail("forgotten"), 6)
    async with trio.open_nursery() as nursery:
        if in_a_thread:
            nursery.start_soon(commit.run)
            await settled()
        async with trio.open_nursery() as writers:
            writers.start_soon(commit.wait_flushed, log, 2)
            await settled()
            commit.forget(log)
            log.hold.set()
        await commit.wait_flushed(log, 2)
        nursery.cancel_scope.cancel()
    assert commit.unflushed_bytes == 0


async def test_error_takes_directory_offline_without_acknowledgement(logs):
    directory = DirectoryHealth()
    commit = GroupCommit(directory)
    failing, slow, _ = logs
    failing.error = OSError(5, "Input/output error")
    slow.hold.clear()
    for log in (failing, slow):
        log.append()
        commit.mark_dirty(log, lambda offset: pytest.fail("not durable, or not known to be"))
    failed = []

    async def run():
        with pytest.raises(StorageFailure, match="Input/output"):
            await commit.run()
        failed.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        while directory.offline is None:
            await trio.lowlevel.checkpoint()
        await settled()
        assert not failed, "a flush that runs is waited for"
        slow.hold.set()
    assert "Input/output" in directory.offline
    assert [log.flushed_offset for log in logs] == [0, 0, 0]


def test_write_behind_reports_at_once_without_sync(logs):
    commit = GroupCommit(DirectoryHealth(), fsync=False)
    logs[0].append()
    told = []
    commit.mark_dirty(logs[0], told.append, 6)
    assert told == [1]
    assert logs[0].flushes == commit.unflushed_bytes == 0


async def test_blocking_work_runs_in_thread_returning_errors():
    assert await run_blocking(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await run_blocking(divmod, 1, 0)


def test_clock_is_in_milliseconds(monkeypatch):
    assert 1_700_000_000_000 < now_ms() < 17_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: 1_234_567_890_999_999)
    assert now_ms() == 1_234_567_890


class PlainLog:
    """A log without a file, which a thread flushes."""

    must_flush = needs_only_a_sync = False
    log_end_offset = flushed_offset = 0

    def __init__(self, told):
        self.told = told

    def prepare_flush(self):
        self.told.append("prepares")
        return PlainFlush()

    def finish_flush(self, flush):
        self.told.append("finishes")
        self.flushed_offset = self.log_end_offset


class PlainFlush:
    def descriptors(self):
        return None

    def run(self):
        pass


@pytest.mark.parametrize(
    ("dirty", "busy", "taken"),
    [
        *[(0, 0, 0), (1, 0, 1), (3, 0, 1), (4, 0, 2), (6, 0, 2), (7, 0, 3)],
        *[(4, 1, 2), (5, 1, 3), (4, 2, 4), (5, 2, 5)],
    ],
)
def test_worker_takes_its_share_of_logs(dirty, busy, taken):
    commit = GroupCommit(DirectoryHealth())
    logs = [PlainLog([]) for _ in range(dirty)]
    for log in logs:
        commit.mark_dirty(log, int)
    flushing = PlainLog([])
    commit._flushing[id(flushing)] = None
    commit._dirty[id(flushing)] = None
    commit._busy = busy
    share = commit._take_share()
    assert list(share) == [id(log) for log in logs[:taken]]
    assert [dirty.log for dirty in share.values()] == logs[:taken]
    assert list(commit._dirty) == [*[id(log) for log in logs[taken:]], id(flushing)]
    assert list(commit._flushing) == [id(flushing), *share]


@pytest.mark.parametrize(
    ("count", "turns"),
    [
        (15, ["15 prepares", "15 finishes"]),
        (16, ["16 prepares", "turn", "16 finishes"]),
        (33, ["16 prepares", "turn", "16 prepares", "turn", "1 prepares", "33 finishes"]),
        (101, [*["16 prepares", "turn"] * 6, "5 prepares", "100 finishes", "turn", "1 finishes"]),
    ],
)
async def test_loop_yields_while_many_logs_are_flushed(monkeypatch, count, turns):
    told, offsets = [], []

    async def others():
        told.append("turn")

    monkeypatch.setattr(group_commit, "yield_to_loop", others)
    commit = GroupCommit(DirectoryHealth())
    logs = [PlainLog(told) for _ in range(count)]
    for number, log in enumerate(logs, 1):
        log.log_end_offset = number
        commit.mark_dirty(log, offsets.append, number)
    assert commit.unflushed_bytes == count * (count + 1) // 2
    await commit._flush(commit._dirty.values())
    runs = [[word, len(list(some))] for word, some in groupby(told)]
    assert [word if word == "turn" else f"{size} {word}" for word, size in runs] == turns
    assert offsets == list(range(1, count + 1))
    assert commit.flushes == 1


async def test_flush_time_covers_preparation_to_end(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    commit = GroupCommit(DirectoryHealth())
    finish = commit._finisher([])
    now[0] += 0.25
    assert list(finish()) == []
    assert (commit.times.seconds, commit.flushes) == (0.25, 1)
    assert dict(commit.times.buckets())["0.25"] == 1
    assert dict(commit.times.buckets())["0.125"] == 0


@pytest.mark.parametrize(("fsync", "must_flush"), [(False, False), (False, True), (True, True)])
def test_log_needing_sync_is_dirty_without_waiters(fsync, must_flush):
    told, commit, log = [], GroupCommit(DirectoryHealth(), fsync=fsync), PlainLog([])
    log.must_flush, log.log_end_offset = must_flush, 7
    commit.mark_dirty(log, told.append, 100)
    dirty = [
        (dirty_log.log, len(dirty_log.on_flushed), dirty_log.written)
        for dirty_log in commit._dirty.values()
    ]
    assert told == ([] if fsync else [7])
    assert dirty == [(log, int(fsync), 100 * fsync)] * must_flush
    assert commit.unflushed_bytes == 100 * fsync
    known = [*commit._dirty.values()]
    commit.flush_soon(log)
    assert len(commit._dirty) == 1
    assert [*commit._dirty.values()][: len(known)] == known


async def test_postponed_logs_are_flushed_with_awaited_ones():
    commit, log = GroupCommit(DirectoryHealth()), PlainLog([])
    commit.mark_dirty(log, int, 5, is_awaited=False)
    (left,) = commit._left.values()
    commit.flush_soon(log)
    assert (commit._left, [*commit._dirty.values()]) == ({}, [left])


def test_kernel_flush_needs_worker_and_free_slot():
    told = []
    log = PlainLog(told)
    log.needs_only_a_sync = True
    for workers, begun, only_a_sync in ((None, 0, True), ("run", 3, True), ("run", 0, False)):
        commit = GroupCommit(DirectoryHealth())
        commit.mark_dirty(log, int)
        commit._workers, commit._begun, log.needs_only_a_sync = workers, begun, only_a_sync
        (dirty,) = commit._dirty.values()
        assert commit._begin(dirty) is False
        assert (told, commit._begun, [*commit._dirty.values()]) == ([], begun, [dirty])


async def test_worker_is_idle_after_its_flush(nursery):
    commit, told = GroupCommit(DirectoryHealth()), []
    nursery.start_soon(commit.run)
    await settled()
    for offset in (1, 2):
        log = PlainLog([])
        log.log_end_offset = offset
        commit.mark_dirty(log, told.append)
        with trio.fail_after(5):
            await commit.wait_flushed(log, offset)
        assert commit._busy == 0
    assert (told, commit.flushes) == ([1, 2], 2)


async def test_worker_stops_after_failed_flush(autojump_clock):
    class Failing(PlainLog):
        def prepare_flush(self):
            raise OSError("no disk")

    commit, other = GroupCommit(DirectoryHealth()), PlainLog(told := [])
    for log in (Failing([]), other):
        commit.mark_dirty(log, told.append)
    with trio.fail_after(5):
        await commit._work()
    assert (told, [dirty.log for dirty in commit._dirty.values()]) == ([], [other])
    assert commit._directory.offline == "fsync failed: no disk"
    assert (commit._busy, commit._flushing) == (0, {})
