"""The kernel's asynchronous fdatasync, with real files. If it is forbidden, threads sync, and these tests are
skipped.
"""

import ctypes
import errno
import os
import platform
import select
import sys

import pytest

from trimaran.log.durability import syncing
from trimaran.log.durability.syncing import Fdatasyncs

UNDER_WAY = 256


@pytest.fixture(scope="module")
def syncs():
    try:
        return Fdatasyncs()
    except OSError as error:
        pytest.skip(f"this machine has no asynchronous fdatasync: {error}")


@pytest.fixture
def files(tmp_path):
    opened = [os.open(tmp_path / str(i), os.O_CREAT | os.O_RDWR, 0o600) for i in range(3)]
    for descriptor in opened:
        os.write(descriptor, b"record")
    yield opened
    for descriptor in opened:
        os.close(descriptor)


def completed(syncs, count):
    found = []
    while len(found) < count:
        assert select.select([syncs.eventfd], [], [], 10)[0], f"only {found}"
        found += syncs.completed()
    return found


def test_every_file_completes_with_its_batch_tag(syncs, files):
    (first, _), (second, _) = taken = [syncs.submit(files), syncs.submit(files[:1])]
    assert [count for _, count in taken] == [3, 1]
    assert first != second
    assert sorted(completed(syncs, 4)) == sorted([(first, 0)] * 3 + [(second, 0)])
    assert syncs.completed() == []


def test_file_may_be_closed_meanwhile(syncs, tmp_path):
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"record")
    tag, _ = syncs.submit([file])
    os.close(file)
    assert completed(syncs, 1) == [(tag, 0)]


def test_unsyncable_file_is_not_accepted(syncs, files):
    reading, writing = os.pipe()
    assert syncs.submit([reading])[1] == 0
    assert syncs.submit([1 << 20])[1] == 0
    tag, taken = syncs.submit([files[0], reading, files[1]])
    assert taken == 1
    assert completed(syncs, 1) == [(tag, 0)]
    os.close(reading)
    os.close(writing)


def test_running_syncs_are_bounded_by_one_read(syncs, files):
    for _ in range(3):
        some, taken = syncs.submit(files[:1] * (UNDER_WAY - 1))
        assert taken == UNDER_WAY - 1
        assert syncs.submit(files[:2])[1] == 0
        last, taken = syncs.submit(files[:1])
        assert taken == 1
        found = completed(syncs, UNDER_WAY)
        assert sorted(found) == sorted([(some, 0)] * (UNDER_WAY - 1) + [(last, 0)])
    assert syncs.submit(files[:1] * (UNDER_WAY + 1))[1] == 0


class Kernel:
    """Replaces libc: notes each call, and returns the scripted result, by default 0."""

    def __init__(self):
        self.asked, self.answers = [], []
        self.errno = 0

    def syscall(self, number, *given):
        self.asked.append((number, *given))
        answer = self.answers.pop(0) if self.answers else 0
        if answer < 0:
            ctypes.set_errno(self.errno)
        return answer


@pytest.fixture
def kernel(monkeypatch):
    found = Kernel()
    monkeypatch.setattr(syncing, "_libc", found)
    return found


@pytest.mark.parametrize(
    ("machine", "numbers"),
    [("x86_64", (206, 209, 208)), ("aarch64", (0, 2, 4)), ("riscv64", (0, 2, 4))],
)
def test_each_machine_has_its_own_numbers_of_calls(kernel, monkeypatch, machine, numbers):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    syncs = Fdatasyncs()
    kernel.answers = [1, 0]
    assert syncs.submit([3]) == (1, 1)
    os.eventfd_write(syncs.eventfd, 1)
    assert syncs.completed() == []
    assert tuple(number for number, *_ in kernel.asked) == numbers
    setup, submit, getevents = kernel.asked
    assert (setup[1], submit[1], submit[2]) == (UNDER_WAY, syncs._context, 1)
    assert getevents[1:] == (syncs._context, 0, UNDER_WAY, syncs._events, None)
    os.close(syncs.eventfd)


@pytest.mark.parametrize(
    ("name", "value"), [("machine", "s390x"), ("platform", "darwin"), ("maxsize", (1 << 31) - 1)]
)
def test_other_machines_have_no_asynchronous_fdatasync(kernel, monkeypatch, name, value):
    if name == "machine":
        monkeypatch.setattr(platform, name, lambda: value)
    else:
        monkeypatch.setattr(sys, name, value)
    with pytest.raises(OSError, match="asynchronous fdatasync is not known here"):
        Fdatasyncs()
    assert kernel.asked == []


def test_full_system_raises_and_leaks_no_descriptor(kernel, monkeypatch):
    closed, close = [], os.close

    def closing(descriptor):
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "close", closing)
    kernel.answers, kernel.errno = [-1], errno.EAGAIN
    with pytest.raises(BlockingIOError) as failed:
        Fdatasyncs()
    assert (failed.value.errno, failed.value.strerror) == (errno.EAGAIN, os.strerror(errno.EAGAIN))
    assert len(closed) == 1


def test_kernel_structures_have_the_right_layout(kernel):
    """The offsets of `struct iocb` and `struct io_event` in linux/aio_abi.h."""
    syncs = Fdatasyncs()
    kernel.answers = [2]
    assert syncs.submit([5, 6]) == (1, 2)
    for at, descriptor in enumerate((5, 6)):
        one = syncs._iocbs.raw[64 * at : 64 * at + 64]
        fields = {0: (8, 1), 16: (2, 3), 20: (4, descriptor), 56: (4, 1), 60: (4, syncs.eventfd)}
        for offset, (size, expected) in fields.items():
            assert int.from_bytes(one[offset : offset + size], "little") == expected, offset
        rest = [
            one[i] for i in range(64) if not any(o <= i < o + s for o, (s, _) in fields.items())
        ]
        assert not any(rest)
        assert syncs._pointers[at] == ctypes.addressof(syncs._iocbs) + 64 * at
    assert syncs._under_way == 2
    assert syncs.completed() == []
    events = [(1, 5), (1, -errno.EIO)]
    for at, (tag, result) in enumerate(events):
        data = tag.to_bytes(8, "little") + bytes(8) + result.to_bytes(8, "little", signed=True)
        syncs._events[32 * at : 32 * at + 32] = data + bytes(8)
    kernel.answers = [2]
    os.eventfd_write(syncs.eventfd, 2)
    assert syncs.completed() == [(1, 0), (1, errno.EIO)]
    assert syncs._under_way == 0
    kernel.answers, kernel.errno = [-1], errno.EBADF
    assert syncs.submit([5]) == (2, 0)
    assert syncs._under_way == 0
    os.close(syncs.eventfd)
