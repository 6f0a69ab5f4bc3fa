"""Execution of flushes: by the kernel, or by a thread."""

import errno
import os
import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked as settled

from tests.log.durability.held_syncs import held
from trimaran.log.durability.syncing import begin, carry_out

FILES = 8


class Flushed:
    def __init__(self, descriptors, error=None):
        self._descriptors = descriptors
        self._error = error
        self.thread = None
        self.by_kernel = False

    def descriptors(self):
        return self._descriptors

    def run(self):
        self.thread = threading.get_ident()
        if self._error is not None:
            raise self._error

    def synced(self, error):
        if error is not None:
            raise error
        self.by_kernel = True


async def carried_out(flushes):
    """Returns whether the kernel, instead of a thread, carried out the flush."""
    assert await carry_out(flushes, threading.get_ident) == threading.get_ident()
    in_thread = {flush.thread not in (None, threading.get_ident()) for flush in flushes}
    by_kernel = {flush.by_kernel for flush in flushes}
    assert in_thread != by_kernel
    return by_kernel == {True}


async def test_kernel_syncs_some_files():
    kernel, found = held(), []
    flushes = [Flushed([3]), Flushed([4, 5])]

    async def run():
        found.append(await carried_out(flushes))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await settled()
        assert kernel.submitted == [[3, 4, 5]]
        for _ in range(3):
            assert not found
            kernel.complete(0)
            await settled()
    assert found == [True]


@pytest.mark.parametrize(
    "descriptors",
    [[None], [[3], None], [[3] * (FILES + 1)], [[3] * FILES, [4]], [[]]],
    ids=["more to do", "one has more to do", "many files", "many together", "none"],
)
async def test_thread_syncs_other_files(descriptors):
    kernel = held()
    assert not await carried_out([Flushed(some) for some in descriptors])
    assert kernel.submitted == []


@pytest.mark.parametrize("counts", [[FILES], [FILES - 3, 3], [1] * FILES])
async def test_kernel_syncs_permitted_files(counts):
    kernel, told = held(), []
    flushes = [Flushed([number] * count) for number, count in enumerate(counts)]
    assert begin(flushes, int, told.append)
    assert [len(some) for some in kernel.submitted] == [FILES]
    for _ in range(FILES):
        kernel.complete(0)
    await settled()
    assert len(told) == 1
    assert all(flush.by_kernel for flush in flushes)


async def test_thread_syncs_what_kernel_refuses():
    held().takes_max = 0
    assert not await carried_out([Flushed([3])])


async def test_real_file_is_synced_by_kernel_and_thread(tmp_path):
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"record")
    await carried_out([Flushed([file])])
    assert not await carried_out([Flushed(None)])
    os.close(file)


@pytest.mark.parametrize("by_kernel", [False, True])
async def test_errors_are_raised_to_the_caller(by_kernel):
    kernel = held()
    flushes = [Flushed([3] if by_kernel else None, OSError(errno.EIO, "dead")), Flushed([4])]

    async def run():
        with pytest.raises(OSError, match=r"Input/output|dead"):
            await carry_out(flushes, os.abort)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await settled()
        for _ in range(2 * by_kernel):
            kernel.complete(0, errno.EIO)
    assert not any(flush.by_kernel for flush in flushes)


async def test_cancelling_waits_for_the_kernel():
    """A begun flush has an outcome, which each waiter receives."""
    kernel, flush = held(), Flushed([3])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, [flush], int)
        await settled()
        nursery.cancel_scope.cancel()
        await_end = trio.Event()

        async def complete():
            with trio.CancelScope(shield=True):
                await settled()
                kernel.complete(0)
                await_end.set()

        nursery.start_soon(complete)
    assert await_end.is_set()
    assert flush.by_kernel


async def test_begun_flush_reports_its_end():
    kernel, told = held(), []
    assert begin([Flushed([3])], lambda: 7, told.append)
    assert begin([Flushed([4])], lambda: 8, told.append)
    assert not begin([Flushed(None)], lambda: 9, told.append)
    kernel.complete(0)
    kernel.complete(1, errno.EIO)
    await settled()
    assert told[0].unwrap() == 7
    with pytest.raises(OSError, match="Input/output"):
        told[1].unwrap()
    assert len(told) == 2
