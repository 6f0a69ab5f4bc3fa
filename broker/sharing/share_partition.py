"""One partition for one share group, on its leader: acquisition, acknowledgement, locks, and what is to be stored.

This is a state machine without I/O. `acquire` and the end of locks take effect at once. `acknowledge` and `release`
return a `DeliveryChange`, which the caller stores and then finishes. A member may hold 10,000 records in as many runs,
so both work in pieces: until all are decided, the decided records count as records of a change that is being stored.
Source: `SharePartition` of Kafka, KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.broker.sharing.acknowledging import (
    PIECE,
    Acknowledgement,
    DeadLetters,
    Decisions,
    DeliveryChange,
    finish,
)
from trimaran.broker.sharing.acquiring import Acquired, Acquisition, BatchBounds, Demand
from trimaran.broker.sharing.in_flight import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    Batch,
    GapWindow,
    InFlight,
    RecordRun,
)
from trimaran.broker.sharing.rules import SharingRules
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset, StateEpoch
from trimaran.wire.transport.scheduling.pauses import pauses


class SharePartition:
    """The records in flight of one share group in one partition, for one leader epoch.

    `now` is monotonic seconds. `rules` are read at each call, because the group's configs change.
    """

    def __init__(self, state: ShareState, start: Offset, leader_epoch: LeaderEpoch) -> None:
        """Begins with a stored state; `start` is its start offset, or where the group begins to read. Raises KafkaError
        UNKNOWN_SERVER_ERROR if the state contradicts itself.
        """
        self.state_epoch: StateEpoch = state.summary.state_epoch
        self.leader_epoch = leader_epoch
        self._flight = InFlight(start)
        self.resumed: list[StateBatch] = []
        if state.batches:
            self._load(state.batches)

    def _load(self, batches: Sequence[StateBatch]) -> None:
        flight = self._flight
        following = flight.start
        for batch in batches:
            first, last, state, count = batch
            if first < following or last < first:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"invalid stored state: {batch}")
            following = last + 1
            flight.add(Batch([RecordRun(first, last, state, count)]))
            if state is ARCHIVING:
                self.resumed.append(batch)
        flight.end = batches[-1].last_offset
        flight.may_have_free = True
        flight.window = GapWindow(flight.start, flight.end)
        flight.advance()

    # -- what is known

    @property
    def start(self) -> Offset:
        """The first offset that may still be delivered."""
        return self._flight.start

    @property
    def end(self) -> Offset:
        """The last offset that was acquired, or `start` if no record is in flight."""
        return self._flight.end

    @property
    def size(self) -> int:
        """The number of offsets in flight."""
        return self._flight.size

    @property
    def next_deadline(self) -> float | None:
        """The time at which the next lock ends, or None."""
        return self._flight.locks.earliest()

    @property
    def run_count(self) -> int:
        """The number of runs in flight, to which the memory of the share partition is proportional."""
        return self._flight.run_count

    @property
    def batch_count(self) -> int:
        """The number of batches in flight."""
        return len(self._flight.batches)

    def summary(self) -> ShareSummary:
        """Returns the position to be stored with the next change."""
        flight = self._flight
        return ShareSummary(self.state_epoch, self.leader_epoch, flight.start, flight.done_count)

    def next_fetch_offset(self) -> Offset:
        """Returns the offset to read from for the next acquisition."""
        return self._flight.next_fetch_offset()

    def can_acquire(self, rules: SharingRules) -> bool:
        """Whether there may be a record to acquire: a free one in flight, or a new one if the limit allows it."""
        flight = self._flight
        return flight.next_fetch_offset() != flight.end + 1 or flight.size < rules.record_locks_max

    def states(self) -> list[StateBatch]:
        """Returns all runs in flight."""
        return [run.as_state() for _, run in self._flight.runs()]

    # -- decisions

    def acquire(
        self,
        fetched: Sequence[BatchBounds],
        fetch_offset: Offset,
        demand: Demand,
        rules: SharingRules,
        now: float,
        aborted: Sequence[BatchBounds] = (),
    ) -> list[Acquired]:
        """Acquires records that were read at `fetch_offset`; those of `aborted` batches are archived instead."""
        flight = self._flight
        acquired = Acquisition(flight, fetched, demand, rules, now).acquire(fetch_offset)
        if acquired:
            ranges = [(batch.base_offset, batch.last_offset) for batch in aborted]
            flight.archive_each(ranges, ACQUIRED)
            for batch in aborted:
                acquired = _without(acquired, batch)
        # Records may have been archived without a write: the start moves over them now, not only at the next
        # acknowledgement.
        flight.advance()
        return acquired

    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[Acknowledgement],
        rules: SharingRules,
        now: float,
        abandon: Callable[[Iterator[None]], object],
    ) -> Generator[None, None, DeliveryChange]:
        """Decides all acknowledgements in pieces, or none. If the generator is closed, `abandon` gets the pieces of
        work that undo what was decided. Renewals are not undone, as in Kafka, because they do not change a state.

        Raises:
            KafkaError: INVALID_REQUEST: a type does not exist, or an offset was never acquired. INVALID_RECORD_STATE: a
                record is not acquired, or not by this member.
        """
        decisions = Decisions(self._flight, rules, now)
        # A generator, so it runs only if it is iterated over; it then undoes everything that was decided until then.
        undoing = finish(self._flight, decisions.change, is_stored=False, now=now)
        is_closed = True
        try:
            pause = pauses(PIECE)
            for acknowledgement in acknowledgements:
                yield from decisions.acknowledge(member, acknowledgement)
                yield from next(pause)
            is_closed = False
        except KafkaError:
            for _ in undoing:
                yield
            is_closed = False
            raise
        finally:
            if is_closed:
                abandon(undoing)
        return decisions.change

    def release(
        self, member: str, rules: SharingRules, now: float, is_over: Callable[[], bool]
    ) -> Generator[None, None, DeliveryChange]:
        """Releases the records that the member holds, because its session has ended; in pieces, and stops when
        `is_over` returns True. The generator must not be closed before its end.
        """
        decisions = Decisions(self._flight, rules, now)
        yield from decisions.release(member, is_over)
        return decisions.change

    def end_locks(self, rules: SharingRules, now: float) -> DeliveryChange:
        """Releases the records whose locks have ended, up to the limit of a piece; `next_deadline` shows whether there
        are more. This takes effect immediately: the change is stored, but never undone.
        """
        decisions = Decisions(self._flight, rules, now)
        decisions.change.is_kept = True
        decisions.end_locks()
        return decisions.change

    def finish(self, change: DeliveryChange, now: float, *, is_stored: bool) -> Iterator[None]:
        """Ends a change in pieces: its records keep their new state if the change is stored, and return to the old one
        otherwise.
        """
        yield from finish(self._flight, change, is_stored=is_stored, now=now)
        self._flight.advance()

    def archived(self, letters: Sequence[DeadLetters]) -> DeliveryChange:
        """Archives records that are in the dead-letter queue, or cannot be written to it; returns the change to be
        stored.
        """
        change = DeliveryChange(limit=0)
        ranges = [(each.batch.first_offset, each.batch.last_offset) for each in letters]
        self._flight.archive_each(ranges, ARCHIVING)
        change.batches = [each.batch._replace(state=ARCHIVED) for each in letters]
        self._flight.advance()
        return change

    def begin_at(self, log_start: Offset) -> None:
        """Moves the start to where the log begins now."""
        self._flight.begin_at(log_start)
        self._flight.advance()


def _without(acquired: Sequence[Acquired], batch: BatchBounds) -> list[Acquired]:
    """Returns the acquired records without those of a batch."""
    kept = []
    for part in acquired:
        if part.last < batch.base_offset or part.first > batch.last_offset:
            kept.append(part)
            continue
        if part.first < batch.base_offset:
            kept.append(part._replace(last=batch.base_offset - 1))
        if part.last > batch.last_offset:
            kept.append(part._replace(first=batch.last_offset + 1))
    return kept
