"""The records of one partition that are in flight for a share group: their states, and the offsets around them.

Kafka keeps one state for a whole batch, or one for each offset once a part of the batch changes. Here a batch always is
a list of runs: neighbours with the same state. A `split` batch behaves as a batch of Kafka with a state for each
offset, but a million records that were delivered together are one run. Source: `InFlightBatch`, `InFlightState` and
`SharePartition` of Kafka. Intentional difference: in Kafka, the start stays before acknowledged records of a loaded
state until a fetch has read beyond them, which never happens if they use up the limit of record locks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from trimaran.broker.coordination.timers import Timers
from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.wire.identity import Offset

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
ARCHIVING = DeliveryState.ARCHIVING
NO_MEMBER = ""  # the member of records that are not acquired


# An `attrgetter`, because it runs in C: batches may have thousands of runs.
first_of_run = attrgetter("first")


class RecordRun:
    """Neighbouring records of one batch with the same state, from `first` to `last`, both included.

    While a change is being written, `change` is that change, and `before` the state and member to return to if the
    write fails; `before` is None if the records were archived meanwhile. `deadline` is when the lock ends.
    """

    __slots__ = ("before", "change", "count", "deadline", "first", "last", "member", "state")

    def __init__(
        self,
        first: Offset,
        last: Offset,
        state: DeliveryState,
        count: int,
        member: str = NO_MEMBER,
        deadline: float | None = None,
    ) -> None:
        self.first, self.last = first, last
        self.state, self.count, self.member = state, count, member
        self.deadline = deadline
        self.change: object | None = None
        self.before: tuple[DeliveryState, str] | None = None

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        """Whether the records can be acquired."""
        return self.state is AVAILABLE and self.change is None

    @property
    def is_done(self) -> bool:
        """Whether the records will never be delivered again."""
        return self.change is None and (self.state is ACKNOWLEDGED or self.state is ARCHIVED)

    def is_like(self, other: RecordRun) -> bool:
        """Whether the two can become one run: locks and changes keep runs apart."""
        return (
            self.state is other.state
            and self.state is not ACQUIRED
            and self.count == other.count
            and self.change is None
            and other.change is None
        )

    def as_state(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.count)


class Batch:
    """Records that were acquired together, in runs without gaps between their offsets."""

    __slots__ = ("is_split", "runs")

    def __init__(self, runs: list[RecordRun], *, is_split: bool = False) -> None:
        self.runs = runs
        self.is_split = is_split

    @property
    def first(self) -> Offset:
        return self.runs[0].first

    @property
    def last(self) -> Offset:
        return self.runs[-1].last

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def is_within(self, first: Offset, last: Offset) -> bool:
        return self.first >= first and self.last <= last

    def run_at(self, offset: Offset) -> RecordRun:
        """Returns the run that has `offset`, or the last run if the batch ends before it."""
        return self.runs[self.index_of(offset)]

    def index_of(self, offset: Offset) -> int:
        """Returns the index of `run_at`."""
        return max(0, bisect_right(self.runs, offset, key=first_of_run) - 1)

    def runs_in(self, first: Offset, last: Offset) -> list[RecordRun]:
        """Returns the runs that have a record from `first` to `last`, both included."""
        if first > self.last:
            return []
        end = bisect_right(self.runs, last, key=first_of_run)
        return self.runs[self.index_of(first) : end]

    def merge(self) -> None:
        """Joins neighbours that have become alike."""
        merged = self.runs[:1]
        for run in self.runs[1:]:
            if merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        self.runs = merged


class GapWindow(NamedTuple):
    """The offsets that the stored state may lack: `start` is the first one that no acquisition has reached, `end` the
    last offset of the stored state. Records in between without a state were never delivered.
    """

    start: Offset
    end: Offset


def _first_of(batch: Batch) -> Offset:
    return batch.first


class InFlight:
    """The batches in order of offsets, and the offsets around them.

    `start` is the first offset that may still be delivered (Kafka's SPSO), `end` the last offset that was acquired, or
    `start` if no record is in flight. A caller of this class changes runs; `advance` then moves `start`.
    """

    def __init__(self, start: Offset) -> None:
        self.start = start
        self.end = start
        self.batches: list[Batch] = []
        self.locks: Timers[RecordRun] = Timers()
        self.window: GapWindow | None = None
        # Whether records before `end` may have become free.
        self.may_have_free = False

    # -- lookups

    @property
    def size(self) -> int:
        """The number of offsets that count against the limit of record locks."""
        return self.end - self.start + 1 if self.batches else 0

    @property
    def run_count(self) -> int:
        return sum([len(batch.runs) for batch in self.batches])  # a list, for speed

    @property
    def done_count(self) -> int:
        """The number of records from `start` on that are acknowledged or archived, or are about to be."""
        return sum(
            run.last - max(run.first, self.start) + 1
            for batch in self.batches
            for run in batch.runs
            if run.last >= self.start and (run.state is ACKNOWLEDGED or run.state is ARCHIVED)
        )

    @property
    def gap(self) -> Offset | None:
        """The start of the gap window, or None. The window ends when newer records are acquired."""
        window = self.window
        return window.start if window is not None and window.end == self.end else None

    def floor(self, offset: Offset) -> Batch | None:
        """Returns the last batch that begins at or before `offset`, or None."""
        index = bisect_right(self.batches, offset, key=_first_of)
        return self.batches[index - 1] if index else None

    def beginning_in(self, first: Offset, last: Offset) -> list[Batch]:
        """Returns the batches whose first offset is from `first` to `last`, both included."""
        low = bisect_left(self.batches, first, key=_first_of)
        return self.batches[low : bisect_right(self.batches, last, key=_first_of)]

    def overlapping(self, first: Offset, last: Offset) -> list[Batch]:
        """Returns the batches that have a record from `first` to `last`, both included."""
        floor = self.floor(first)
        if floor is not None and floor.last >= first:
            first = floor.first
        return self.beginning_in(first, last)

    def pieces_between(
        self, first: Offset, last: Offset, size: int
    ) -> Iterator[list[tuple[Batch, RecordRun]]]:
        """Yields the runs that have a record of these offsets, each with its batch, at most `size` at a time. Between
        two pieces batches may be added or removed, and runs cut or joined.
        """
        while first <= last:
            piece = list(islice(self._between(first, last), size))
            if not piece:
                return
            first = Offset(piece[-1][1].last + 1)
            yield piece

    def _between(self, first: Offset, last: Offset) -> Iterator[tuple[Batch, RecordRun]]:
        floor = self.floor(first)
        for batch in self.beginning_in(first if floor is None else floor.first, last):
            for run in batch.runs_in(first, last):
                yield batch, run

    def is_cut_by_start(self, first: Offset, last: Offset) -> bool:
        return first < self.start <= last

    def next_fetch_offset(self) -> Offset:
        """Returns the offset to fetch from: that of the first free record, or the one after all records in flight."""
        beyond = self.end + 1
        if not self.batches or self.start > self.batches[-1].last:
            self.may_have_free = False
            return self.end
        if not self.may_have_free:
            return beyond
        gap = self.gap
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for run in batch.runs:
                if run.is_free:
                    return run.first
        self.may_have_free = False
        return beyond

    # -- changes of batches

    def add(self, batch: Batch) -> None:
        index = bisect_right(self.batches, batch.first, key=_first_of)
        self.batches.insert(index, batch)

    def runs_between(self, batch: Batch, first: Offset, last: Offset) -> Sequence[RecordRun]:
        """Returns the runs of these offsets; cuts the first and last run so that they have no other offsets."""
        self._cut(batch, first)
        self._cut(batch, last + 1)
        return batch.runs_in(first, last)

    def cut_run(
        self, batch: Batch, run: RecordRun, firsts: Sequence[Offset]
    ) -> Sequence[RecordRun]:
        """Cuts a run of the batch so that runs begin at these offsets, in order; returns all parts."""
        if not firsts:
            return (run,)
        index = batch.index_of(run.first)
        parts = [run]
        for offset in firsts:
            parts.append(self._rest(parts[-1], offset))
        batch.runs[index : index + 1] = parts
        batch.is_split = True
        return parts

    def split_run(self, batch: Batch, run: RecordRun, size: int) -> RecordRun:
        """Cuts `run` so that it has at most `size` records, and returns it."""
        self._cut(batch, run.first + size)
        return run

    def _cut(self, batch: Batch, offset: Offset) -> None:
        """Makes a run begin at `offset`, if that is within the batch."""
        index = batch.index_of(offset)
        run = batch.runs[index]
        if run.first < offset <= run.last:
            batch.runs.insert(index + 1, self._rest(run, offset))
            batch.is_split = True

    def _rest(self, run: RecordRun, offset: Offset) -> RecordRun:
        """Ends a run before `offset`; returns a run with the rest of it."""
        rest = RecordRun(offset, run.last, run.state, run.count, run.member, run.deadline)
        rest.change, rest.before = run.change, run.before
        run.last = Offset(offset - 1)
        if run in self.locks:
            assert run.deadline is not None, "a lock has a deadline"
            self.locks.set(rest, run.deadline)
        return rest

    # -- changes of runs

    def lock(self, run: RecordRun, deadline: float) -> None:
        run.deadline = deadline
        self.locks.set(run, deadline)

    def unlock(self, run: RecordRun) -> None:
        run.deadline = None
        self.locks.cancel(run)

    def archive(self, first: Offset, last: Offset, state: DeliveryState) -> None:
        """Archives the records of these offsets that are in `state`, without a write.

        A record whose release is in progress is archived whether or not the release succeeds.
        """
        self.archive_each([(first, last)], state)

    def archive_each(self, ranges: Iterable[tuple[Offset, Offset]], state: DeliveryState) -> None:
        """Archives as `archive` does, for many ranges in one pass over the batches."""
        changed: dict[Batch, None] = {}
        for first, last in ranges:
            floor = self.floor(first)
            for batch in self.beginning_in(first if floor is None else floor.first, last):
                if not batch.is_split and batch.runs[0].state is not state:
                    continue
                for run in self.runs_between(batch, first, last):
                    if run.state is state:
                        self.archive_run(run)
                changed[batch] = None
        for batch in changed:
            batch.merge()

    def archive_run(self, run: RecordRun) -> None:
        run.state, run.member, run.before = ARCHIVED, NO_MEMBER, None
        self.unlock(run)

    def forget_window_before(self, offset: Offset) -> None:
        """Moves the start of the gap window to `offset`."""
        if self.window is not None:
            end = self.window.end
            self.window = GapWindow(offset, end) if offset <= end == self.end else None

    # -- progress

    def advance(self) -> None:
        """Moves `start` over records that are done, and removes the batches before it."""
        self._skip_known()
        if not self._start_is_done():
            return
        last = self._last_done()
        if last is None:
            return
        if last == self.batches[-1].last:
            # The log may begin beyond all records in flight.
            self.start = self.end = max(self.start, last + 1)
            self.batches.clear()
            return
        batch = self.floor(last)
        assert batch is not None
        kept = bisect_left(self.batches, batch.first, key=_first_of)
        if last == batch.last:
            kept += 1
            self.start = max(self.start, self.batches[kept].first)
            if (gap := self.gap) is not None:
                self.start = min(gap, self.start)
        else:
            self.start = max(self.start, last + 1)
        del self.batches[:kept]

    def _skip_known(self) -> None:
        """Moves the start of the gap window over records that have a state, because they leave no gap. Otherwise
        `start` could not move beyond them until a fetch reads there, which never happens if they use up the limit of
        record locks.
        """
        if self.window is None:
            return
        start = self.window.start
        index = max(0, bisect_right(self.batches, start, key=_first_of) - 1)
        while index < len(self.batches) and self.batches[index].first <= start:
            start = max(start, self.batches[index].last + 1)
            index += 1
        self.forget_window_before(start)

    def _start_is_done(self) -> bool:
        batch = self.floor(self.start)
        return batch is not None and batch.run_at(self.start).is_done

    def _last_done(self) -> Offset | None:
        """Returns the last offset of the done records at the beginning, or None."""
        last, gap = None, self.gap
        for batch in self.batches:
            if gap is not None and batch.last >= gap:
                return last
            for run in batch.runs:
                if not run.is_done:
                    return last
                last = run.last
        return last

    def begin_at(self, log_start: Offset) -> None:
        """Moves `start` to where the log begins now; free records before it are archived, acquired ones remain until
        their members are done.
        """
        if log_start <= self.start:
            return
        if self.batches:
            self.archive(self.start, log_start - 1, AVAILABLE)
            self.end = max(self.end, log_start)
        else:
            self.end = log_start
        self.start = log_start
        if self.window is not None:
            self.window = GapWindow(max(self.window.start, log_start), self.window.end)

    def runs(self) -> Iterator[tuple[Batch, RecordRun]]:
        """Yields each run with its batch; the runs must not be cut meanwhile."""
        for batch in self.batches:
            for run in batch.runs:
                yield batch, run
