"""Group commit: one fdatasync of a log makes all records durable that were appended before it began.

The leader and the follower call `mark_dirty` after each append; `on_flushed` receives the durable end of the log. The
high watermark then advances, and a Produce with acks=all is answered (`broker/producing/await_replicas.py`). The log
determines the files to sync (`flush.py`), and `syncing.py` has the kernel or a thread sync them. A failed fsync takes
the directory offline (`health.py`).

At the first append to a clean log, the kernel begins the flush when the slice of requests ends
(`wire/transport/scheduling/slice_end.py`), if only the file must be synced. All other dirty logs of a directory are
flushed by a few workers. Each takes a share of the logs that no other worker has. It prepares the flush of each log on
the loop; then all are synced; then it records the durable end of each log on the loop, and makes the callbacks. Appends
during the flush of their log wait for its next flush, so under load more appends share an fsync. While a worker is
free, no log waits for the flush of another log: a record would otherwise wait until megabytes of another client are
flushed. A write that is not awaited gets no flush of its own if an awaited write to the same log may follow soon. Not
implemented: retrying a failed fsync. A second fsync may succeed although pages are lost; therefore the directory goes
offline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import trio
from outcome import Error, Outcome

from trimaran.log.durability.flush import Flush
from trimaran.log.durability.health import DirectoryHealth, StorageFailure
from trimaran.log.durability.syncing import begin, carry_out
from trimaran.wire.identity import Offset
from trimaran.wire.transport.metrics.cumulative_histogram import CumulativeHistogram
from trimaran.wire.transport.scheduling.alarm import Alarm
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.slice_end import SliceEnd, slice_end

OnFlushed = Callable[[Offset], object]

# The number of workers. Six files of 1 MiB take 6 to 12 ms one after another, 3 ms with three threads, and about the
# same with six: the file system joins them into one commit of its journal.
WORKERS_MAX = 3
# The maximum number of flushes that the kernel runs at the same time; the remaining logs of a request share the flushes
# of the workers.
BEGUN_MAX = 3
# The maximum number of logs handled between two checkpoints: preparing may open files, which takes 0.1 to 1 ms;
# finishing only wakes the waiting tasks.
PREPARED_PER_TURN = 16
FINISHED_PER_TURN = 100
# The seconds for which an unawaited write may wait for the next flush of its log. By then a client has begun its next
# transaction, and the work of such a short time can be repeated quickly after a crash.
LEFT_SECONDS_MAX = 0.02
# The maximum number of unsynced bytes of a log directory: more bytes would delay the waiting producers and benefit
# none, because the disk does not become faster.
UNFLUSHED_BYTES_MAX = 1 << 20


class FlushableLog(Protocol):
    """The part of `trimaran.log.partitions.partition_log.PartitionLog` that durability needs.

    `health` is the same object for all logs of a directory. `prepare_flush` and `finish_flush` are
    `Flushing.prepare` and `Flushing.finish` (`log/durability/flush.py`) with the segments of the log.
    """

    health: DirectoryHealth

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def flushed_offset(self) -> Offset: ...

    @property
    def must_flush(self) -> bool:
        """Whether the unsynced bytes have reached the limit of write-behind."""

    @property
    def needs_only_a_sync(self) -> bool:
        """Whether a flush now consists of one or two fdatasyncs, which the kernel may run by itself."""

    def prepare_flush(self) -> Flush: ...

    def finish_flush(self, flush: Flush) -> object: ...


@dataclass(slots=True)
class _Dirty:
    log: FlushableLog
    on_flushed: list[OnFlushed] = field(default_factory=list)
    written: int = 0  # bytes
    # Set during its flush: no callback is then called.
    forgotten: bool = False
    # Set when its flush has ended or was abandoned.
    done: trio.Event | None = None


_Prepared = tuple[_Dirty, Flush]


class GroupCommit:
    """The flusher of one log directory.

    With `fsync=False` (write-behind, Kafka's default) `on_flushed` is called immediately, and only a log that
    `must_flush` is synced, without a waiter, so that few records must be checked after a crash.
    """

    def __init__(self, directory: DirectoryHealth, *, fsync: bool = True) -> None:
        self._directory = directory
        self._fsync = fsync
        # The logs to flush, by identity; at most the logs of the directory.
        self._dirty: dict[int, _Dirty] = {}
        # The logs with writes that are not awaited yet.
        self._left: dict[int, _Dirty] = {}
        self._left_for_long = Alarm(self._flush_left)
        # The logs that a worker or the kernel is flushing.
        self._flushing: dict[int, _Dirty] = {}
        # The events of idle workers.
        self._idle: list[AutoResetEvent] = []
        self._busy = 0
        # The number of flushes that the kernel is running.
        self._begun = 0
        self._last_ended = AutoResetEvent()
        # Set while `run` is running.
        self._workers: trio.CancelScope | None = None
        self._slice_end: SliceEnd
        self._failure: BaseException | None = None
        # The sum of `written` over all dirty logs; zero with write-behind.
        self.unflushed_bytes = 0
        # The number and durations of flushed shares.
        self.flushes = 0
        self.times = CumulativeHistogram()

    def mark_dirty(
        self,
        log: FlushableLog,
        on_flushed: OnFlushed,
        written: int = 0,
        *,
        is_awaited: bool = True,
    ) -> None:
        """Notes unsynced appends of `written` bytes to `log`; `on_flushed(flushed_offset)` is called on the
        loop when they are durable.

        A callback given twice before a flush is called once. With write-behind it is called before this returns. A
        write that is not awaited may be synced `LEFT_SECONDS_MAX` later, or with the next awaited one (`expedite`).
        """
        if not self._fsync:
            on_flushed(log.log_end_offset)
            if log.must_flush:
                self.flush_soon(log)
            return
        key = id(log)
        known = self._dirty.get(key) or self._left.get(key)
        dirty = known or _Dirty(log)
        dirty.written += written
        self.unflushed_bytes += written
        if on_flushed not in dirty.on_flushed:
            dirty.on_flushed.append(on_flushed)
        if not is_awaited:
            if known is None:
                self._leave(dirty)
        elif known is None or self._left.pop(key, None) is not None:
            self._wanted(dirty)

    def _leave(self, dirty: _Dirty) -> None:
        if not self._left:
            self._left_for_long.set(trio.current_time() + LEFT_SECONDS_MAX)
        self._left[id(dirty.log)] = dirty

    def _flush_left(self) -> None:
        for dirty in list(self._left.values()):
            self.expedite(dirty.log)

    def expedite(self, log: FlushableLog) -> None:
        """Flushes `log` now if its flush was deferred, because a caller now waits for it."""
        if (dirty := self._left.pop(id(log), None)) is not None:
            self._wanted(dirty)

    async def wait_flushed(self, log: FlushableLog, offset: Offset) -> None:
        """Returns when `log` is synced up to `offset`, or is no longer flushed because it was forgotten or
        truncated.
        """
        while log.flushed_offset < offset:
            self.expedite(log)
            dirty = self._flushing.get(id(log)) or self._dirty.get(id(log))
            if dirty is None or dirty.forgotten:
                return
            if dirty.done is None:
                dirty.done = trio.Event()
            await dirty.done.wait()

    def flush_soon(self, log: FlushableLog) -> None:
        """Requests a sync of `log`, without a waiter."""
        left = self._left.pop(id(log), None)
        if id(log) not in self._dirty:
            self._wanted(left or _Dirty(log))

    def _wanted(self, dirty: _Dirty) -> None:
        """Marks the log as dirty. Workers look for dirty logs when they begin, and at the end of a flush."""
        self._dirty[id(dirty.log)] = dirty
        if self._workers is not None and id(dirty.log) not in self._flushing:
            self._slice_end.then_for_all(partial(self._begin_or_wake, dirty))

    def _begin_or_wake(self, dirty: _Dirty) -> None:
        key = id(dirty.log)
        is_to_begin = self._dirty.get(key) is dirty and key not in self._flushing
        if is_to_begin and not self._begin(dirty):
            self._wake()

    def _wake(self) -> None:
        if self._idle:
            self._idle.pop().set()

    def _begin(self, dirty: _Dirty) -> bool:
        """Begins a flush by the kernel, in the same turn as the append; returns False if a worker must flush."""
        log = dirty.log
        if self._workers is None or self._begun >= BEGUN_MAX or not log.needs_only_a_sync:
            return False
        try:
            flush = log.prepare_flush()
        except OSError:
            return False  # the worker gets the same error
        finish = self._finisher([(dirty, flush)])
        if not begin([flush], finish, partial(self._ended, dirty)):
            log.finish_flush(flush)
            return False
        self._flushing[id(log)] = self._dirty.pop(id(log))
        self._begun += 1
        return True

    def _ended(self, dirty: _Dirty, result: Outcome[object]) -> None:
        """Finishes a flush of `_begin`."""
        key = id(dirty.log)
        self._begun -= 1
        self._last_ended.set()
        self._done(self._flushing.pop(key))
        if type(result) is Error:
            self._fail(result.error)
        elif key in self._dirty:
            self._wake()  # appends by the callbacks share the next flush

    def _fail(self, error: BaseException) -> None:
        """Ends `run`, which raises the first error."""
        if isinstance(error, OSError):
            self._directory.fail(f"fsync failed: {error}")
            failure = StorageFailure(self._directory.offline)
            failure.__cause__ = error
            error = failure
        self._failure = self._failure or error
        if self._workers is not None:
            self._workers.cancel()

    def forget(self, log: FlushableLog) -> None:
        """Drops the callbacks of this log. A flush in progress still syncs it, without calling back."""
        for dirty_logs in (self._dirty, self._left):
            if (dirty := dirty_logs.pop(id(log), None)) is not None:
                self._done(dirty)
        if (flushing := self._flushing.get(id(log))) is not None:
            flushing.forgotten = True

    def _done(self, dirty: _Dirty) -> None:
        self.unflushed_bytes -= dirty.written
        if dirty.done is not None:
            dirty.done.set()

    async def run(self) -> None:
        """Flushes until cancelled or until a flush fails.

        Raises:
            StorageFailure: an OSError; the directory is marked offline before it is raised.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._workers, self._slice_end = nursery.cancel_scope, slice_end()
                nursery.start_soon(self._left_for_long.run)
                for _ in range(WORKERS_MAX):
                    nursery.start_soon(self._work)
        finally:
            self._workers = None
            with trio.CancelScope(shield=True):
                while self._begun:
                    await self._last_ended.wait()
        assert self._failure is not None
        raise self._failure

    async def _work(self) -> None:
        wanted = AutoResetEvent()
        while True:
            share = self._take_share()
            if not share:
                self._idle.append(wanted)
                await wanted.wait()
                continue
            self._busy += 1
            try:
                await self._flush(share.values())
            except OSError as error:
                self._fail(error)
                return
            finally:
                self._busy -= 1
                for key in share:
                    self._done(self._flushing.pop(key))
            if self._dirty:
                await yield_to_loop()  # appends by the callbacks share the next flush

    def _take_share(self) -> dict[int, _Dirty]:
        """Takes the share of one worker from the logs that are not being flushed; idle workers take the rest."""
        free = [key for key in self._dirty if key not in self._flushing]
        count = -(-len(free) // (WORKERS_MAX - self._busy))
        share = {key: self._dirty.pop(key) for key in free[:count]}
        self._flushing.update(share)
        return share

    async def _flush(self, share: Iterable[_Dirty]) -> None:
        """Flushes a share. Raises OSError; then no callback of `share` is called."""
        flushes: list[_Prepared] = []
        for dirty in share:
            if dirty.forgotten:
                continue  # its files may have been renamed while other flushes were prepared
            flushes.append((dirty, dirty.log.prepare_flush()))
            if len(flushes) % PREPARED_PER_TURN == 0:
                await yield_to_loop()
        for some in await carry_out([flush for _, flush in flushes], self._finisher(flushes)):
            await yield_to_loop()
            self._finish(some)

    def _finisher(
        self, flushes: Sequence[_Prepared]
    ) -> Callable[[], Iterator[Sequence[_Prepared]]]:
        """Returns a function that finishes the first `flushes`, which begin now, and returns the rest in pieces."""
        began = time.monotonic()

        def finish_first() -> Iterator[Sequence[_Prepared]]:
            self.times.observe(time.monotonic() - began)
            self.flushes += 1
            self._finish(flushes[:FINISHED_PER_TURN])
            starts = range(FINISHED_PER_TURN, len(flushes), FINISHED_PER_TURN)
            return (flushes[start : start + FINISHED_PER_TURN] for start in starts)

        return finish_first

    def _finish(self, flushes: Iterable[_Prepared]) -> None:
        if self._failure is not None:
            return  # another log failed: the health of the directory wakes the waiting tasks
        for dirty, flush in flushes:
            dirty.log.finish_flush(flush)
            if not dirty.forgotten:
                for on_flushed in dirty.on_flushed:
                    on_flushed(dirty.log.flushed_offset)


class Durability:
    """The durability of a broker's logs, as configured by `trimaran.log.fsync`.

    `commit` (the default): records are on disk, by group commit. `none`: records are written, as in Apache Kafka; a
    power failure may lose acknowledged records, a killed process does not.
    """

    def __init__(self, commits: Mapping[DirectoryHealth, GroupCommit], *, fsync: bool) -> None:
        """Takes one `GroupCommit` per log directory, keyed by the health object that its logs share."""
        self._commits = commits
        self._fsync = fsync

    def of(self, log: FlushableLog) -> GroupCommit:
        """Returns the commits of the log's directory."""
        return self._commits[log.health]

    def durable_end(self, log: FlushableLog) -> Offset:
        """Returns the end (exclusive) of the records that may be reported to others."""
        return log.flushed_offset if self._fsync else log.log_end_offset

    def mark_dirty(
        self,
        log: FlushableLog,
        on_flushed: OnFlushed,
        written: int = 0,
        *,
        is_awaited: bool = True,
    ) -> None:
        """Calls `GroupCommit.mark_dirty` of the log's directory."""
        self._commits[log.health].mark_dirty(log, on_flushed, written, is_awaited=is_awaited)

    def is_behind(self, log: FlushableLog) -> bool:
        """Whether the unsynced bytes of the log's directory exceed the bound, so that producers must wait for the
        disk.
        """
        return self._commits[log.health].unflushed_bytes > UNFLUSHED_BYTES_MAX

    def flush_soon(self, log: FlushableLog) -> None:
        """Calls `GroupCommit.flush_soon` of the log's directory."""
        self._commits[log.health].flush_soon(log)

    def forget(self, log: FlushableLog) -> None:
        self._commits[log.health].forget(log)
