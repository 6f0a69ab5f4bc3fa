"""Syncing of files: by the kernel if no other work is needed, otherwise by a thread.

In a thread one flush takes 0.2 ms longer than its fdatasync, which takes 0.25 ms on a good disk: the thread is woken,
must get the interpreter lock, and then the loop is woken. Linux's asynchronous fdatasync needs no thread of ours: the
kernel syncs a file in its own thread, and an eventfd reports the completion.

Source: io_submit(2), `linux/aio_abi.h`; IOCB_CMD_FDSYNC exists since Linux 4.18. The package `caio` wraps the same
calls, but takes a tenth of a second to import, and reports errors without their number; io_uring can do more, but
containers often forbid it.

    iocb      data:u64 key:u32 rw_flags:u32 opcode:u16 priority:i16 fd:u32 buf:u64 nbytes:u64 offset:i64 reserved:u64
              flags:u32 resfd:u32
    io_event  data:u64 iocb:u64 result:i64 result2:i64

`data` is returned unchanged; a negative result is a negated error number. All supported machines are little endian.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import logging
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import TypeVar

import outcome
import trio

from trimaran.log.durability.flush import Flush
from trimaran.wire.text import events
from trimaran.wire.transport.scheduling.slice_end import slice_end

log = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

# The maximum number of files that the kernel syncs for a flush. It would sync each in a thread of its own, all at the
# same time; one of our threads syncs them one after another, and for many files the cost of waking it is small.
FILES_MAX = 8
_IOCB = Struct("<QIIHhIQQqQII")
_IO_EVENT = Struct("<QQqq")
_FDATASYNC = 3  # IOCB_CMD_FDSYNC
_TELL_EVENTFD = 1  # IOCB_FLAG_RESFD
# Numbers of io_setup, io_submit, io_getevents.
_GENERIC_CALLS = (0, 2, 4)
_CALLS = {"x86_64": (206, 209, 208), "aarch64": _GENERIC_CALLS, "riscv64": _GENERIC_CALLS}
# The maximum number of syncs in progress in one context: the files of all flushes of about ten directories. The system
# allows 65,536 over all processes.
UNDER_WAY_MAX = 256

# The calls do not wait, so they keep the interpreter lock: releasing it costs more than the calls.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Fdatasyncs:
    """A context of the kernel, used by one thread at a time. It is never closed, because that waits for 30 ms: the end
    of the process closes it.
    """

    def __init__(self) -> None:
        """Raises OSError: the system does not support asynchronous fdatasync, forbids it, or has no room."""
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or numbers is None or sys.maxsize < 1 << 32:
            raise OSError("asynchronous fdatasync is not known here")
        setup, self._io_submit, self._io_getevents = numbers
        self._context = ctypes.c_ulong(0)
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if _libc.syscall(setup, UNDER_WAY_MAX, ctypes.byref(self._context)) != 0:
            os.close(self.eventfd)
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        # The kernel copies the requests when they are submitted.
        self._iocbs = ctypes.create_string_buffer(_IOCB.size * UNDER_WAY_MAX)
        first = ctypes.addressof(self._iocbs)
        places = range(first, first + len(self._iocbs), _IOCB.size)
        self._pointers = (ctypes.c_void_p * UNDER_WAY_MAX)(*places)
        self._events = ctypes.create_string_buffer(_IO_EVENT.size * UNDER_WAY_MAX)
        self._tags = itertools.count(1)
        self._under_way = 0

    def submit(self, descriptors: Sequence[int]) -> tuple[int, int]:
        """Submits fdatasyncs of these files, which may be closed meanwhile. Returns the tag of their completions, and
        the number of the first files that the kernel accepted: all or none, except after errors that do not occur in a
        healthy system.
        """
        tag = next(self._tags)
        if self._under_way + len(descriptors) > UNDER_WAY_MAX:
            return tag, 0
        told = (0, 0, 0, 0, _TELL_EVENTFD, self.eventfd)
        for at, descriptor in enumerate(descriptors):
            _IOCB.pack_into(
                self._iocbs, at * _IOCB.size, tag, 0, 0, _FDATASYNC, 0, descriptor, *told
            )
        result = _libc.syscall(self._io_submit, self._context, len(descriptors), self._pointers)
        # The kernel's thread runs on this processor: yielding lets the sync begin now, instead of when the loop is
        # idle.
        os.sched_yield()
        taken = max(0, result)
        self._under_way += taken
        return tag, taken

    def completed(self) -> list[tuple[int, int]]:
        """Returns the syncs completed since the last call: the tag and the error number, 0 for success."""
        try:
            os.eventfd_read(self.eventfd)
        except BlockingIOError:
            return []
        count = _libc.syscall(
            self._io_getevents, self._context, 0, UNDER_WAY_MAX, self._events, None
        )
        count = max(0, count)
        self._under_way -= count
        found = memoryview(self._events)[: count * _IO_EVENT.size]
        return [(tag, max(0, -result)) for tag, _, result, _ in _IO_EVENT.iter_unpack(found)]


# Contexts that earlier trio runs no longer use; the next run of this process reuses them.
_spare: list[Fdatasyncs] = []


@dataclass(slots=True)
class _Batch:
    left: int
    ended: Callable[[OSError | None], object]
    error: OSError | None = None


class KernelSyncs:
    """The fdatasyncs of one trio run; see `of_this_run`."""

    def __init__(self, fdatasyncs: Fdatasyncs) -> None:
        self._fdatasyncs = fdatasyncs
        self._batches: dict[int, _Batch] = {}

    def begin(self, descriptors: Sequence[int], ended: Callable[[OSError | None], object]) -> bool:
        """Begins a sync of these files, at least one, by the kernel; `ended` is called on the loop with the first
        error. It must not raise, and the objects that it needs must outlive the wait.

        Returns False if the kernel accepts none of the files: they must still be synced.
        """
        tag, taken = self._fdatasyncs.submit(descriptors)
        if not taken:
            return False
        batch = self._batches[tag] = _Batch(taken, ended)
        if taken < len(descriptors):
            # A second sync of all files would hide an error of those that the kernel accepted.
            batch.error = OSError(errno.EIO, "the kernel took some of the files only")
        return True

    async def run(self) -> None:
        """Makes the callbacks of completed syncs, until the trio run ends."""
        done = slice_end()
        while True:
            await trio.lowlevel.wait_readable(self._fdatasyncs.eventfd)
            done.begin_slice()  # responses are sent once all completions are recorded
            for tag, number in self._fdatasyncs.completed():
                self._completed(tag, number)
            done.end_slice()

    def _completed(self, tag: int, number: int) -> None:
        batch = self._batches[tag]
        batch.left -= 1
        if number and batch.error is None:
            batch.error = OSError(number, os.strerror(number))
        if batch.left == 0:
            del self._batches[tag]
            batch.ended(batch.error)


_of_run: trio.lowlevel.RunVar[KernelSyncs | None] = trio.lowlevel.RunVar(
    "trimaran.log.durability.syncing"
)


def of_this_run() -> KernelSyncs | None:
    """Returns the fdatasyncs of this run; None if the kernel does not support them or has no room: threads then sync
    the files.
    """
    try:
        return _of_run.get()
    except LookupError:
        pass
    try:
        fdatasyncs = _spare.pop() if _spare else Fdatasyncs()
    except OSError as error:
        events.FSYNC_BY_THREADS.log(log, error=error)
        _of_run.set(None)
        return None
    return use(fdatasyncs, _spare.append)


def use(fdatasyncs: Fdatasyncs, keep: Callable[[Fdatasyncs], object] | None = None) -> KernelSyncs:
    """Makes this trio run use `fdatasyncs`; calls `keep` with them when the run ends."""
    syncs = KernelSyncs(fdatasyncs)
    _of_run.set(syncs)

    async def run() -> None:
        try:
            await syncs.run()
        finally:
            if keep is not None:
                keep(fdatasyncs)

    trio.lowlevel.spawn_system_task(run)
    return syncs


async def carry_out(flushes: Sequence[Flush], then: Callable[[], T]) -> T:
    """Runs all `flushes`, and returns the result of `then`, which is called on the loop one turn earlier.

    Cancellation waits for the end. Raises OSError.
    """
    task = trio.lowlevel.current_task()
    if begin(flushes, then, partial(trio.lowlevel.reschedule, task)):
        result: T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return result
    return await run_in_own_thread(partial(_run_all, flushes), lambda _: then())


def begin(
    flushes: Sequence[Flush], then: Callable[[], T], ended: Callable[[outcome.Outcome[T]], object]
) -> bool:
    """Begins all `flushes` by the kernel; returns False without any effect if the kernel cannot run them.

    `then` is called on the loop at the end, and `ended` with its outcome. `ended` must not raise.
    """
    descriptors = _descriptors(flushes)
    syncs = of_this_run() if descriptors else None
    if syncs is None:
        return False

    def finish(error: OSError | None) -> T:
        for flush in flushes:
            flush.synced(error)
        return then()

    return syncs.begin(descriptors, lambda error: ended(outcome.capture(finish, error)))


def _descriptors(flushes: Sequence[Flush]) -> list[int]:
    """Returns the descriptors of all flushes if the kernel can sync all of them; otherwise none."""
    found: list[int] = []
    for flush in flushes:
        descriptors = flush.descriptors()
        if descriptors is None or len(found) + len(descriptors) > FILES_MAX:
            return []
        found += descriptors
    return found


def _run_all(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.run()


async def run_in_own_thread(fn: Callable[[], T], then: Callable[[T], U]) -> U:
    """Runs `fn` in a thread at less than half of the cost of `run_blocking` in turns of the loop. The caller limits the
    number of threads.

    `then` is called on the loop with the result of `fn`; a turn later its own result is returned to the caller.
    """
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

    def deliver(result: outcome.Outcome[T]) -> None:
        token.run_sync_soon(go_on, result)

    def go_on(result: outcome.Outcome[T]) -> None:
        trio.lowlevel.reschedule(task, outcome.capture(lambda: then(result.unwrap())))

    trio.lowlevel.start_thread_soon(fn, deliver)
    result: U = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    return result
