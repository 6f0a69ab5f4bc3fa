"""Group commit whose flushes the kernel begins immediately, in the writer's own turn of the loop."""

import errno
from itertools import chain

import pytest
import trio
from trio.testing import wait_all_tasks_blocked as settled

from tests.log.durability.held_syncs import held
from trimaran.log.durability.group_commit import GroupCommit, _Dirty
from trimaran.log.durability.health import DirectoryHealth, StorageFailure
from trimaran.wire.transport.scheduling.slice_end import slice_end

BEGUN = 3
LEFT = 0.02


class KernelLog:
    """A log with the file `descriptor`, which only a held kernel syncs."""

    must_flush = False
    needs_only_a_sync = True

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.log_end_offset = self.flushed_offset = 0
        self.error = None
        self.given_up = 0

    def append(self):
        self.log_end_offset += 1

    def prepare_flush(self):
        if self.error is not None:
            raise self.error
        return KernelFlush(self)

    def finish_flush(self, flush):
        if flush.done:
            self.flushed_offset = flush.upto
        else:
            self.given_up += 1


class KernelFlush:
    def __init__(self, log):
        self.log, self.upto, self.done = log, log.log_end_offset, False

    def descriptors(self):
        return [self.log.descriptor]

    def run(self):
        self.done = True

    def synced(self, error):
        if error is not None:
            raise error
        self.done = True


class Commits:
    """A running group commit, with a held kernel."""

    def __init__(self, nursery, kernel):
        self.nursery, self.kernel = nursery, kernel
        self.directory = DirectoryHealth()
        self.commit = GroupCommit(self.directory)
        self.failure = None
        self.told = []

    async def run(self):
        try:
            await self.commit.run()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    def append(self, log, **how):
        log.append()
        self.commit.mark_dirty(log, self.note, 10, **how)

    def note(self, offset):
        self.told.append(offset)


@pytest.fixture
async def commits(nursery):
    found = Commits(nursery, held())
    nursery.start_soon(found.run)
    await settled()
    yield found
    found.kernel.complete_rest()


async def test_first_append_flushes_at_once_others_share(commits):
    log = KernelLog(7)
    for _ in range(3):
        commits.append(log)
    assert commits.kernel.submitted == [[7]]
    await settled()
    assert commits.kernel.submitted == [[7]]
    commits.kernel.complete(0)
    await settled()
    assert (commits.told, commits.kernel.submitted) == ([1], [[7], [7]])
    commits.append(log)
    commits.kernel.complete(1)
    await settled()
    assert (commits.told, commits.kernel.submitted) == ([1, 3], [[7], [7], [7]])
    commits.kernel.complete(2)
    await settled()
    assert commits.told == [1, 3, 4]
    assert commits.commit.flushes == 3
    assert commits.commit.unflushed_bytes == 0


async def test_requests_of_slice_share_a_flush(commits):
    """Requests of a log that is being flushed wait for the end of that flush."""
    log, other, forgotten = KernelLog(7), KernelLog(8), KernelLog(9)
    slice_end().begin_slice()
    for item in (log, other, log, forgotten):
        commits.append(item)
    commits.commit.forget(forgotten)
    assert commits.kernel.submitted == []
    slice_end().end_slice()
    assert commits.kernel.submitted == [[7], [8]]
    slice_end().begin_slice()
    commits.append(log)
    slice_end().end_slice()
    assert commits.kernel.submitted == [[7], [8]]
    commits.kernel.complete(0)
    commits.kernel.complete(1)
    await settled()
    assert (sorted(commits.told), commits.kernel.submitted[2:]) == ([1, 2], [[7]])
    commits.kernel.complete(2)
    await settled()
    assert sorted(commits.told) == [1, 2, 3]
    assert commits.commit.unflushed_bytes == 0


async def test_unawaited_append_shares_the_next_flush(commits):
    log = KernelLog(7)
    commits.append(log, is_awaited=False)
    await settled()
    assert commits.kernel.submitted == []
    assert commits.commit.unflushed_bytes == 10
    commits.append(log)
    commits.append(log, is_awaited=False)
    assert commits.kernel.submitted == [[7]]
    commits.kernel.complete(0)
    await settled()
    assert (commits.told, commits.kernel.submitted) == ([2], [[7]]), "the third is left"
    assert commits.commit.unflushed_bytes == 10


async def test_unawaited_append_is_delayed_boundedly(commits, autojump_clock):
    """The delay counts from the first append: later ones do not extend it."""
    began, log, other = trio.current_time(), KernelLog(7), KernelLog(8)
    commits.append(log, is_awaited=False)
    for _ in range(4):
        await trio.sleep(LEFT / 5)
        commits.append(log, is_awaited=False)
        commits.append(other, is_awaited=False)
    assert commits.kernel.submitted == []
    await trio.sleep_until(began + LEFT * 1.01)
    assert commits.kernel.submitted == [[7], [8]]
    for tag in (0, 1):
        commits.kernel.complete(tag)
    await settled()
    assert sorted(commits.told) == [4, 5]
    commits.append(log, is_awaited=False)
    await trio.sleep(LEFT * 1.05)
    assert commits.kernel.submitted == [[7], [8], [7]]


@pytest.mark.parametrize("who", ["expedite", "flush_soon", "wait_flushed"])
async def test_waiter_expedites_a_postponed_flush(commits, who):
    log = KernelLog(7)
    commits.append(log, is_awaited=False)
    if who == "wait_flushed":
        commits.nursery.start_soon(commits.commit.wait_flushed, log, 1)
        await settled()
    else:
        getattr(commits.commit, who)(log)
    assert commits.kernel.submitted == [[7]]
    commits.kernel.complete(0)
    await settled()
    commits.commit.expedite(log)
    await settled()
    assert (commits.told, commits.kernel.submitted) == ([1], [[7]])


async def test_unawaited_append_waits_for_running_flush(commits, autojump_clock):
    log = KernelLog(7)
    commits.append(log)
    commits.append(log, is_awaited=False)
    await trio.sleep(2 * LEFT)
    assert commits.kernel.submitted == [[7]]
    commits.kernel.complete(0)
    await settled()
    assert (commits.told, commits.kernel.submitted) == ([1], [[7], [7]])


async def test_unawaited_append_of_removed_log_is_forgotten(commits, autojump_clock):
    log = KernelLog(7)
    commits.append(log, is_awaited=False)
    commits.commit.forget(log)
    await trio.sleep(2 * LEFT)
    assert (commits.kernel.submitted, commits.commit.unflushed_bytes) == ([], 0)


async def test_logs_beyond_the_limit_share_later_flushes(commits):
    logs = [KernelLog(number) for number in range(BEGUN + 6)]
    for log in logs:
        commits.append(log)
    assert commits.kernel.submitted == [[number] for number in range(BEGUN)]
    await settled()
    left = commits.kernel.submitted[BEGUN:]
    assert sorted(chain(*left)) == list(range(BEGUN, BEGUN + 6))
    assert len(left) == 3
    for tag, descriptors in enumerate(commits.kernel.submitted):
        for _ in descriptors:
            commits.kernel.complete(tag)
    await settled()
    assert commits.told == [1] * len(logs)
    assert commits.commit.unflushed_bytes == 0


async def test_sync_refused_by_kernel_goes_to_worker(commits):
    log = KernelLog(7)
    commits.kernel.takes_max = 0
    commits.append(log)
    assert log.given_up == 1
    while not commits.told:
        await trio.lowlevel.checkpoint()
    assert commits.told == [1]


async def test_log_needing_more_than_sync_uses_worker(commits):
    log = KernelLog(7)
    log.needs_only_a_sync = False
    commits.append(log)
    commits.append(log)
    assert commits.kernel.submitted == []
    await settled()
    assert commits.kernel.submitted == [[7]], "both appends share it"


async def test_no_flush_begins_before_commit_runs():
    kernel, commit = held(), GroupCommit(DirectoryHealth())
    commit.mark_dirty(KernelLog(7), lambda offset: None)
    assert kernel.submitted == []


async def test_error_takes_directory_offline_without_callbacks(commits):
    failing, other = KernelLog(7), KernelLog(8)
    commits.append(failing)
    commits.append(other)
    commits.kernel.complete(0, errno.EIO)
    await settled()
    assert "Input/output" in commits.directory.offline
    assert commits.failure is None, "a flush that runs is waited for"
    commits.kernel.complete(1)
    await settled()
    assert isinstance(commits.failure, StorageFailure)
    assert "Input/output" in str(commits.failure)
    assert commits.told == []
    assert commits.commit.unflushed_bytes == 0
    commits.append(failing)
    assert len(commits.kernel.submitted) == 2, "nothing begins any more"


async def test_failed_preparation_fails_like_a_worker(commits):
    log = KernelLog(7)
    log.error = OSError(errno.EMFILE, "no descriptor")
    commits.append(log)
    await settled()
    assert "no descriptor" in str(commits.failure)
    assert commits.told == []


async def test_failing_callback_ends_the_node(commits):
    """After a failed callback it is unknown which other callbacks ran, so the node must end."""
    log = KernelLog(7)
    log.append()
    commits.commit.mark_dirty(log, lambda offset: 1 // 0)
    commits.kernel.complete(0)
    await settled()
    assert isinstance(commits.failure, ZeroDivisionError)


async def test_forgotten_log_gets_no_callback(commits):
    log = KernelLog(7)
    commits.append(log)
    commits.commit.forget(log)
    commits.kernel.complete(0)
    await settled()
    assert commits.told == []
    assert commits.commit.unflushed_bytes == 0


async def test_writer_waits_for_begun_flush(commits):
    log, ended = KernelLog(7), []
    commits.append(log)

    async def wait():
        await commits.commit.wait_flushed(log, 1)
        ended.append(log.flushed_offset)

    commits.nursery.start_soon(wait)
    await settled()
    assert ended == []
    commits.kernel.complete(0)
    await settled()
    assert ended == [1]


async def test_cancellation_waits_for_begun_flush():
    kernel, log, ended = held(), KernelLog(7), []
    commit = GroupCommit(DirectoryHealth())

    async def run():
        try:
            await commit.run()
        finally:
            ended.append(log.flushed_offset)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await settled()
        log.append()
        commit.mark_dirty(log, lambda offset: None)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await settled()
            assert (log.flushed_offset, ended) == (0, [])
            kernel.complete(0)
    assert ended == [1]


async def test_begun_flush_wakes_no_worker(commits):
    log = KernelLog(7)
    idle = list(commits.commit._idle)
    assert idle
    commits.append(log)
    assert commits.commit._idle == idle
    commits.kernel.complete(0)
    await settled()
    assert (log.flushed_offset, commits.commit._idle) == (1, idle)


async def test_log_forgotten_before_flush_is_not_prepared(commits):
    """The log's files may have been renamed while other flushes were prepared."""
    kept, forgotten = KernelLog(7), KernelLog(8)
    forgotten.error = OSError(errno.ENOENT, "renamed")
    dirty = [_Dirty(kept, [commits.note]), _Dirty(forgotten, [commits.note], forgotten=True)]
    kept.append()
    commits.nursery.start_soon(commits.commit._flush, dirty)
    await settled()
    commits.kernel.complete(0)
    await settled()
    assert (kept.flushed_offset, commits.told, commits.failure) == (1, [1], None)
