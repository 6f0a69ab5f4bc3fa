"""Linux's asynchronous fdatasync: the kernel syncs a file by a thread of its own, and an eventfd tells when it has.

Source: io_submit(2), `linux/aio_abi.h`; IOCB_CMD_FDSYNC is there since Linux 4.18. The package `caio` wraps the same
calls, but takes a tenth of a second to be imported, and gives an error without its number; io_uring can do more, and
containers often forbid it.

    iocb      data:u64 key:u32 rw_flags:u32 opcode:u16 priority:i16 fd:u32 buf:u64 nbytes:u64 offset:i64 reserved:u64
              flags:u32 resfd:u32
    io_event  data:u64 iocb:u64 result:i64 result2:i64

`data` comes back as it was given; a negative result is an error's number. The machines are all little endian.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import sys
from collections.abc import Sequence
from struct import Struct

_IOCB = Struct("<QIIHhIQQqQII")
_IO_EVENT = Struct("<QQqq")
_FDATASYNC = 3  # IOCB_CMD_FDSYNC
_TELL_EVENTFD = 1  # IOCB_FLAG_RESFD
# Of io_setup, io_submit, io_getevents.
_GENERIC_CALLS = (0, 2, 4)
_CALLS = {"x86_64": (206, 209, 208), "aarch64": _GENERIC_CALLS, "riscv64": _GENERIC_CALLS}
# What may be under way in one context: the files of all flushes of some ten directories. The system allows 65,536 of
# all processes.
UNDER_WAY_MAX = 256

# None of the calls waits, so they keep the interpreter lock: it is dearer than they are.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Fdatasyncs:
    """One context of the kernel, used by one thread at a time. It is never closed, as that waits for 30 ms: the end of
    the process does.
    """

    def __init__(self) -> None:
        """Raises OSError where the system does not know this, forbids it, or has no room."""
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
        # The kernel copies them when they are submitted.
        self._iocbs = ctypes.create_string_buffer(_IOCB.size * UNDER_WAY_MAX)
        first = ctypes.addressof(self._iocbs)
        places = range(first, first + len(self._iocbs), _IOCB.size)
        self._pointers = (ctypes.c_void_p * UNDER_WAY_MAX)(*places)
        self._events = ctypes.create_string_buffer(_IO_EVENT.size * UNDER_WAY_MAX)
        self._tags = itertools.count(1)
        self._under_way = 0

    def submit(self, descriptors: Sequence[int]) -> tuple[int, int]:
        """Has the kernel sync these files, which may be closed meanwhile. Gives the tag with which each completes, and
        how many it took, of the first: all or none, but for errors that a healthy system does not have.
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
        # The kernel's thread runs on this processor: it has the disk begin now, instead of when the loop rests.
        os.sched_yield()
        taken = max(0, result)
        self._under_way += taken
        return tag, taken

    def completed(self) -> list[tuple[int, int]]:
        """What completed since it was asked last, without waiting: the tag and the error's number, 0 for none."""
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
