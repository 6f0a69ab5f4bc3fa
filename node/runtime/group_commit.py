"""One round of fdatasync makes everything durable that was appended before it began.

A round takes all logs of a directory that were marked dirty, asks each on the loop what must be synced, does it all in
a few threads, and tells each on the loop how far it is durable. Appends during a round wait for the next: so the more
is written, the more share an fsync. Left out: retrying a failed fsync, which would lie; the directory goes offline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import trio

from node.runtime.cumulative_histogram import CumulativeHistogram
from node.runtime.errors import StorageFailure
from node.runtime.threads import run_in_own_thread
from wire.transport.events import AutoResetEvent, yield_to_loop

OnFlushed = Callable[[int], object]

# Six files of 1 MiB: 6 to 12 ms one after another, 3 ms by three threads, and hardly less by six.
THREADS_MAX = 3
# Logs between two checkpoints: what must be synced may have to be opened, 0.1 to 1 ms; who waits is only woken.
PREPARED_PER_TURN = 16
FINISHED_PER_TURN = 100


class Flush(Protocol):
    """What must be synced, fixed on the loop."""

    def run(self) -> object:
        """Syncs; blocks, runs in a thread, raises OSError."""


class FlushableLog(Protocol):
    """The part of `log.partitions.partition_log.PartitionLog` that group commit needs."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...

    @property
    def must_flush(self) -> bool:
        """Whether as much is not synced as write-behind allows."""

    def prepare_flush(self) -> Any: ...

    def finish_flush(self, flush: Any) -> object: ...


class Directory(Protocol):
    """The part of `log.directories.directory.LogDirectory` that group commit needs."""

    offline: str | None


@dataclass(slots=True)
class _Dirty:
    log: FlushableLog
    on_flushed: list[OnFlushed] = field(default_factory=list)


class GroupCommit:
    """The flusher of one log directory.

    With `fsync=False` (write-behind, Kafka's own default) `on_flushed` is called at once, and only a log that
    `must_flush` is synced, while nobody waits: so that a crash leaves little to be checked.
    """

    def __init__(self, directory: Directory, *, fsync: bool = True) -> None:
        self._directory = directory
        self._fsync = fsync
        # By identity; bounded by the logs of the directory.
        self._dirty: dict[int, _Dirty] = {}
        # Of the round that runs: who is to be told.
        self._in_round: dict[int, _Dirty] = {}
        self._wanted = AutoResetEvent()
        self.rounds = 0
        self.times = CumulativeHistogram()

    def mark_dirty(self, log: FlushableLog, on_flushed: OnFlushed) -> None:
        """Says that `log` has unsynced appends; `on_flushed(flushed_offset)` is called on the loop when they are
        durable.

        The same callback given twice before a round is called once. Write-behind calls it before this returns.
        """
        if not self._fsync:
            on_flushed(log.log_end_offset)
            if log.must_flush:
                self._dirty.setdefault(id(log), _Dirty(log))
                self._wanted.set()
            return
        dirty = self._dirty.get(id(log))
        if dirty is None:
            dirty = self._dirty[id(log)] = _Dirty(log)
        if on_flushed not in dirty.on_flushed:
            dirty.on_flushed.append(on_flushed)
        self._wanted.set()

    def flush_soon(self, log: FlushableLog) -> None:
        """Has the next round sync `log`, whether somebody waits for it or not."""
        self._dirty.setdefault(id(log), _Dirty(log))
        self._wanted.set()

    def forget(self, log: FlushableLog) -> None:
        """Nobody is told about this log any more, by the next round or by the one that runs; that one
        still syncs it.
        """
        self._dirty.pop(id(log), None)
        self._in_round.pop(id(log), None)

    async def run(self) -> None:
        """Flushes for ever.

        Raises:
            StorageFailure: an OSError; the directory is marked offline before it is raised.
        """
        while True:
            await self._wanted.wait()
            self._in_round, self._dirty = self._dirty, {}
            try:
                await self._round(list(self._in_round.values()))
            finally:
                self._in_round = {}

    async def _round(self, dirty: Sequence[_Dirty]) -> None:
        flushes = []
        try:
            for one in dirty:
                if id(one.log) not in self._in_round:
                    continue  # forgotten meanwhile: its files may have other names now
                flushes.append((one, one.log.prepare_flush()))
                if len(flushes) % PREPARED_PER_TURN == 0:
                    await yield_to_loop()
            began = time.monotonic()
            await _run_side_by_side([flush for _, flush in flushes])
            self.times.observe(time.monotonic() - began)
        except OSError as error:
            self._directory.offline = f"fsync failed: {error}"
            raise StorageFailure(self._directory.offline) from error
        self.rounds += 1
        for count, (one, flush) in enumerate(flushes, 1):
            one.log.finish_flush(flush)
            if id(one.log) in self._in_round:
                for on_flushed in one.on_flushed:
                    on_flushed(one.log.flushed_offset)
            if count % FINISHED_PER_TURN == 0:
                await yield_to_loop()


async def _run_side_by_side(flushes: Sequence[Flush]) -> None:
    """Syncs in a few threads: the disk takes several at once, and the file system joins them into one commit of its
    journal.

    Raises the first OSError, when all threads are done.
    """
    failures: list[OSError] = []

    async def run_share(share: Sequence[Flush]) -> None:
        try:
            await run_in_own_thread(partial(_run_all, share))
        except OSError as error:
            failures.append(error)

    threads = min(THREADS_MAX, len(flushes))
    if threads == 1:
        await run_share(flushes)
    else:
        async with trio.open_nursery() as nursery:
            for number in range(threads):
                nursery.start_soon(run_share, flushes[number::threads])
    if failures:
        raise failures[0]


def _run_all(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.run()
