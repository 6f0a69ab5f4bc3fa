"""Acquisition: the records of a fetch that a member may process, and that no other member gets until their lock ends.

Free records in flight come first, then records that were never delivered. Records on one of their last deliveries are
delivered with few others, and the last time alone. Source: `SharePartition.acquire` of Kafka, KIP-932, KIP-1206.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trimaran.broker.sharing.in_flight import ACQUIRED, AVAILABLE, Batch, InFlight, RecordRun
from trimaran.broker.sharing.rules import AcquireMode, SharingRules
from trimaran.wire.identity import Offset

FIRST_DELIVERY = 1


class BatchBounds(NamedTuple):
    """A record batch that was read from the log."""

    base_offset: Offset
    last_offset: Offset


class Acquired(NamedTuple):
    """Records that a member now holds, from `first` to `last`, both included. `deliveries` counts their deliveries,
    this one included.
    """

    first: Offset
    last: Offset
    deliveries: int


class Demand(NamedTuple):
    """The member's request: `batch_size` is the number of new records that it wants in one acknowledgeable batch."""

    member: str
    mode: AcquireMode
    batch_size: int
    max_records: int


class Acquisition:
    """One acquisition. `rules` and `now`, in monotonic seconds, apply to all its steps."""

    def __init__(
        self,
        flight: InFlight,
        fetched: Sequence[BatchBounds],
        demand: Demand,
        rules: SharingRules,
        now: float,
    ) -> None:
        self._flight = flight
        self._fetched = fetched
        self._member = demand.member
        self._is_exact = demand.mode is AcquireMode.RECORD_LIMIT
        self._batch_size = demand.batch_size
        self._rules = rules
        self._deadline = now + rules.lock_seconds
        self._left = demand.max_records
        self._acquired: list[Acquired] = []

    def acquire(self, fetch_offset: Offset) -> list[Acquired]:
        """Acquires records that were read at `fetch_offset`, and returns them in order; none if there are none."""
        flight, fetched = self._flight, self._fetched
        if not fetched or fetched[-1].last_offset < flight.start:
            return []
        last = self._last_allowed(fetch_offset)
        if self._left <= 0:
            return []
        base = fetched[0].base_offset
        # Compaction may have removed records that are in flight.
        if fetch_offset < base:
            flight.archive(fetch_offset, base - 1, AVAILABLE)
        floor, first = flight.floor(base), base
        if floor is None:
            first = max(base, flight.start)
        elif floor.last >= base:
            first = floor.first
        overlapping = flight.beginning_in(min(base, first), last)
        if not overlapping:
            self._acquire_new(first, last)
        elif not self._acquire_known(overlapping, first, last) and self._left > 0:
            self._acquire_new(overlapping[-1].last + 1, last)
        if self._acquired:
            flight.forget_window_before(self._acquired[-1].last + 1)
        return self._acquired

    def _last_allowed(self, fetch_offset: Offset) -> Offset:
        """Returns the last offset that may be acquired; also reduces the number of records to what the limit of record
        locks leaves. Free records in flight are already counted.
        """
        flight, last = self._flight, self._fetched[-1].last_offset
        room = self._rules.record_locks_max - flight.size
        if room > 0:
            self._left = min(self._left, room)
            return last
        self._left = min(self._left, flight.end - fetch_offset + 1)
        return min(last, flight.end)

    # -- records in flight

    def _acquire_known(self, batches: Sequence[Batch], first: Offset, last: Offset) -> bool:
        """Acquires free records of `batches`, and new records in the gaps that the stored state left; returns whether
        the records must be delivered without the following ones.
        """
        flight, base, gap = self._flight, self._fetched[0].base_offset, first
        for batch in batches:
            if self._left <= 0:
                break
            if flight.gap is not None:
                self._acquire_new(gap, batch.first - 1)
                gap = batch.last + 1
                if self._left <= 0:
                    break
            is_throttled = self._is_throttled(batch, base, last)
            if is_throttled and self._acquired:
                return True
            is_too_large = self._is_exact and batch.size > self._left
            is_whole = batch.is_within(base, last) and not is_too_large and not is_throttled
            if batch.is_split or not is_whole:
                if not (batch.is_split or batch.runs[0].is_free):
                    continue
                batch.is_split = True
                self._acquire_part(batch, base, last)
                if is_throttled:
                    return True
            elif batch.runs[0].is_free:
                self._take(batch.runs[0])
        return False

    def _is_throttled(self, batch: Batch, first: Offset, last: Offset) -> bool:
        """Whether a free record of the batch has been delivered so often that few may be delivered with it."""
        limit = self._rules.throttled_deliveries
        return any(run.is_free and run.count >= limit for run in batch.runs_in(first, last))

    def _acquire_part(self, batch: Batch, first: Offset, last: Offset) -> None:
        """Acquires free records of one batch."""
        rules, flight = self._rules, self._flight
        most: int | None = None  # the number of records at which a throttled delivery ends
        found = 0
        parts: list[Acquired] = []
        for run in list(flight.runs_between(batch, first, last)):
            if not run.is_free:
                continue
            is_last_time = rules.delivers_last_alone and run.count == rules.deliveries_max - 1
            if is_last_time and found:
                break
            if most is None and run.count >= rules.throttled_deliveries:
                most = max(1, batch.size >> run.count - rules.throttled_deliveries + 1)
            room = run.size
            if self._is_exact:
                room = min(room, self._left)
            if most is not None and found < most:
                room = min(room, most - found)
            flight.split_run(batch, run, 1 if is_last_time else room)
            self._take(run, parts)
            found += run.size
            if is_last_time or found == most or (self._is_exact and self._left <= 0):
                break
        self._acquired += parts

    def _take(self, run: RecordRun, parts: list[Acquired] | None = None) -> None:
        """Gives the records of a run to the member; `parts` joins neighbours with the same count."""
        run.state, run.member = ACQUIRED, self._member
        run.count += 1
        self._flight.lock(run, self._deadline)
        self._left -= run.size
        if parts and parts[-1].last + 1 == run.first and parts[-1].deliveries == run.count:
            parts[-1] = parts[-1]._replace(last=run.last)
        else:
            (self._acquired if parts is None else parts).append(
                Acquired(run.first, run.last, run.count)
            )

    # -- records that were never delivered

    def _acquire_new(self, first: Offset, last: Offset) -> None:
        """Acquires new records, up to the end of the batch with the last requested record."""
        flight = self._flight
        if not flight.batches:
            first = max(first, flight.end)
        last = min(last, self._end_of_batch(first + self._left - 1))
        if first > last:
            return
        if self._is_exact and last - first + 1 > self._left:
            self._add_partly(first, last)
        else:
            for new in self._in_batches(first, last):
                self._add(new)
        if flight.batches[0].first == first:
            flight.start = first
        flight.end = max(flight.end, last)

    def _end_of_batch(self, offset: Offset) -> Offset:
        """Returns the end of the record batch that has `offset`; `offset` itself where the log has no record."""
        ends = [batch.last_offset for batch in self._fetched if batch.base_offset <= offset]
        return max([offset, *ends])

    def _in_batches(self, first: Offset, last: Offset) -> list[Acquired]:
        """Divides new records into batches of about the size that the member wants, at the bounds of record batches."""
        parts = []
        if not self._is_exact:
            for batch in self._fetched:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= self._batch_size:
                    parts.append(Acquired(first, batch.base_offset - 1, FIRST_DELIVERY))
                    first = batch.base_offset
        parts.append(Acquired(first, last, FIRST_DELIVERY))
        return parts

    def _add(self, new: Acquired) -> None:
        run = RecordRun(new.first, new.last, ACQUIRED, FIRST_DELIVERY, self._member)
        self._flight.add(Batch([run]))
        self._flight.lock(run, self._deadline)
        self._acquired.append(new)
        self._left -= run.size

    def _add_partly(self, first: Offset, last: Offset) -> None:
        """Adds a batch. The member gets at most the records that it requested; the rest is free."""
        middle = first + self._left
        run = RecordRun(first, middle - 1, ACQUIRED, FIRST_DELIVERY, self._member)
        self._flight.add(Batch([run, RecordRun(middle, last, AVAILABLE, 0)], is_split=True))
        self._flight.lock(run, self._deadline)
        self._flight.may_have_free = True
        self._acquired.append(Acquired(first, middle - 1, FIRST_DELIVERY))
        self._left = 0
