"""Reads lines of a pipe, a terminal or a file in batches: a full batch is returned immediately, a smaller one after the
linger time.

An interrupt ends the reading, not the program: lines that were read are still returned.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from trimaran.cli.interrupt import Interrupt
from trimaran.errors.user_error import Exit, UserError

# too short for a person to notice, and long enough for a fast pipe to fill a batch
LINGER_SECONDS = 0.1
READ_BYTES = 64 * 1024
BATCH_RECORDS_MAX = 500
# Half of the default max.message.bytes: keys, record headers and the batch header need room, too.
BATCH_BYTES_MAX = 512 * 1024
# Far above the limit of brokers (max.message.bytes is 1 MiB by default), which then report the error; endless input
# must not fill the memory.
LINE_BYTES_MAX = 64 << 20


class LineBatches:
    """Batches of lines from a descriptor, up to its end or the interrupt."""

    def __init__(self, fd: int, interrupt: Interrupt) -> None:
        self.lines_read = self.bytes_read = 0
        self._fd = fd
        self._interrupt = interrupt
        self._unfinished = b""

    @property
    def unfinished_bytes(self) -> int:
        """Returns the size of the incomplete line at an interrupt, which was not returned."""
        return len(self._unfinished)

    def __iter__(self) -> Iterator[list[bytes]]:
        waiting: list[bytes] = []
        since = 0.0
        while True:
            left = max(0.0, since + LINGER_SECONDS - time.monotonic()) if waiting else None
            ready, _, _ = select.select([self._fd, self._interrupt.fd], [], [], left)
            if self._interrupt.fd in ready:
                break
            if self._fd not in ready:
                yield from _cut(waiting)
                waiting = []
                continue
            data = os.read(self._fd, READ_BYTES)
            self.bytes_read += len(data)
            if not waiting:
                since = time.monotonic()
            waiting += self._lines(data)
            *full, waiting = _cut(waiting) or [[]]
            yield from full
            if not data:
                break
        yield from _cut(waiting)

    def _lines(self, data: bytes) -> list[bytes]:
        """Returns the lines that `data` completes; b"" is the end of the input, and completes the last line."""
        if data:
            *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        else:
            lines = [self._unfinished] if self._unfinished else []
            self._unfinished = b""
        if len(self._unfinished) > LINE_BYTES_MAX:
            raise UserError(
                f"a line is longer than {LINE_BYTES_MAX >> 20} MiB",
                "each line becomes one record, and this input has no line ends",
                "is it text? produce files of other kinds with a Kafka client",
                exit_code=Exit.USAGE,
            )
        self.lines_read += len(lines)
        return [line.removesuffix(b"\r") for line in lines]


def _cut(lines: list[bytes]) -> list[list[bytes]]:
    """Splits lines into batches that a broker accepts; a line that is too long by itself becomes a batch, which the
    broker may refuse.
    """
    batches: list[list[bytes]] = []
    size = 0
    for line in lines:
        size += len(line)
        if not batches or size > BATCH_BYTES_MAX or len(batches[-1]) == BATCH_RECORDS_MAX:
            batches.append([])
            size = len(line)
        batches[-1].append(line)
    return batches


@contextmanager
def line_batches(path: os.PathLike[str] | None) -> Iterator[tuple[LineBatches, Interrupt]]:
    """Reads lines of a file, or of stdin."""
    fd = 0 if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if path is not None and stat.S_ISDIR(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        with Interrupt() as interrupt:
            yield LineBatches(fd, interrupt), interrupt
    finally:
        if path is not None:
            os.close(fd)
