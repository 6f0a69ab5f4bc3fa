"""Changes of acquired records: acknowledged, released, renewed, or free again because their lock has ended.

A change is decided at once, and takes effect when it is stored; it is undone if that fails. Meanwhile its records can
be neither acquired nor acknowledged. Only the end of a lock takes effect without being stored: another leader, which
does not know the locks, would deliver these records again in any case. Source: `SharePartition` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.broker.sharing.in_flight import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_MEMBER,
    Batch,
    InFlight,
    RecordRun,
    first_of_run,
)
from trimaran.broker.sharing.rules import AcknowledgeType, SharingRules
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

_STATES = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}

# The number of acknowledgements or runs processed between two yields: about 5 ms.
PIECE = 500

# The reasons of a refusal, in Kafka's words.
NOT_FOUND = "Batch record not found. "
NOT_ACQUIRED_BATCH = "The batch cannot be acknowledged. The batch is not in the acquired state."
NOT_ACQUIRED_OFFSET = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER_OF_BATCH = "Member is not the owner of batch record"
NOT_OWNER_OF_OFFSET = "Member is not the owner of offset"
RENEWALS_DISABLED = "Renewing acquisition locks is not enabled for the group."


class Acknowledgement(NamedTuple):
    """The member's decision about the records from `first` to `last`, both included: one type for all records, or a
    type for each.
    """

    first: Offset
    last: Offset
    types: Sequence[int]


class Cause(Enum):
    """The reason why records go to a dead-letter queue."""

    REJECTED = "the member has rejected the record"
    DELIVERED_TOO_OFTEN = "the record has been delivered too often"


class DeadLetters(NamedTuple):
    """Records that are in ARCHIVING until they are in the dead-letter queue."""

    batch: StateBatch
    cause: Cause


def as_letters(batch: StateBatch, deliveries_max: int) -> DeadLetters:
    """Returns the letters about records that an earlier leader left in ARCHIVING. The cause is not stored: as in Kafka,
    it follows from the count.
    """
    too_often = batch.delivery_count >= deliveries_max
    return DeadLetters(batch, Cause.DELIVERED_TOO_OFTEN if too_often else Cause.REJECTED)


class DeliveryChange:
    """A change that is being stored: `batches` in the order of the decisions, neighbours joined.

    `limit` is the number of deliveries after which a record is archived when the change is undone. With `is_kept`, the
    change is never undone, even if it cannot be stored.
    """

    def __init__(self, limit: int, *, is_kept: bool = False) -> None:
        self.limit = limit
        self.is_kept = is_kept
        self.batches: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []

    def add(self, run: RecordRun, cause: Cause) -> None:
        new = run.as_state()
        if run.state is ARCHIVING:
            self.dead_letters.append(DeadLetters(new, cause))
        if self.batches:
            before = self.batches[-1]
            if before.last_offset + 1 == new.first_offset and before[2:] == new[2:]:
                self.batches[-1] = before._replace(last_offset=new.last_offset)
                return
        self.batches.append(new)


class Decisions:
    """The decisions of one request or one timer about the records of `flight`."""

    def __init__(self, flight: InFlight, rules: SharingRules, now: float) -> None:
        self._flight = flight
        self._rules = rules
        self._now = now
        self.change = DeliveryChange(rules.deliveries_max)

    # -- acknowledgements

    def acknowledge(self, member: str, acknowledgement: Acknowledgement) -> Iterator[None]:
        """Decides the member's acknowledgement in pieces; raises KafkaError INVALID_REQUEST or INVALID_RECORD_STATE.
        The caller then undoes the change.
        """
        _check_form(acknowledgement)
        first, last, types = acknowledgement
        if last < self._flight.start:
            return  # the log, or an earlier acknowledgement, has moved the start since
        named = self._named(first, last)
        if last - first < PIECE or (
            len(types) == 1 and sum([len(batch.runs) for batch in named]) <= PIECE
        ):
            self._acknowledge_batches(member, acknowledgement, named)
            return
        if named[0].last < first:  # as in Kafka, the batch before a gap must be held, too
            self._acknowledge_batches(member, acknowledgement, named[:1])
        for piece in self._pieces(acknowledgement):
            self._acknowledge_batches(member, piece, self._flight.overlapping(*piece[:2]))
            yield

    def _pieces(self, acknowledgement: Acknowledgement) -> Iterator[Acknowledgement]:
        """Yields the parts of an acknowledgement: some records of different types, or some runs of one type."""
        first, last, types = acknowledgement
        if len(types) > 1:
            for at in range(0, len(types), PIECE):
                some = types[at : at + PIECE]
                yield Acknowledgement(Offset(first + at), Offset(first + at + len(some) - 1), some)
            return
        start = max(first, self._flight.start)
        for piece in self._flight.pieces_between(start, last, PIECE):
            low, high = piece[0][1].first, piece[-1][1].last
            yield Acknowledgement(max(first, low), min(last, high), types)

    def _acknowledge_batches(
        self, member: str, acknowledgement: Acknowledgement, batches: Sequence[Batch]
    ) -> None:
        begin = self._flight.start
        for batch in batches:
            if batch.last >= begin:
                self._acknowledge_batch(member, acknowledgement, batch)

    def _named(self, first: Offset, last: Offset) -> Sequence[Batch]:
        """Returns the batches that an acknowledgement names; the first may begin before it."""
        flight = self._flight
        floor = flight.floor(max(first, flight.start))
        if floor is None:
            raise _invalid_state(
                NOT_FOUND + "The request batch offsets are not found in the cache."
            )
        named = flight.beginning_in(floor.first, last)
        if named[-1].last < first:
            raise _past_acquired("first")
        if named[-1].last < last:
            raise _past_acquired("last")
        return named

    def _acknowledge_batch(
        self, member: str, acknowledgement: Acknowledgement, batch: Batch
    ) -> None:
        first, last, types = acknowledgement
        flight = self._flight
        if not batch.is_split:
            _check_held(batch.runs[0], member, NOT_ACQUIRED_BATCH, NOT_OWNER_OF_BATCH)
            is_whole = batch.is_within(first, last) and len(types) == 1
            batch.is_split = not is_whole or flight.is_cut_by_start(batch.first, batch.last)
        for run in list(flight.runs_between(batch, max(first, flight.start), last)):
            _check_held(run, member, NOT_ACQUIRED_OFFSET, NOT_OWNER_OF_OFFSET)
            if len(types) == 1:
                self._decide(run, AcknowledgeType(types[0]))
                continue
            for part in self._parts(batch, run, acknowledgement):
                self._decide(part, AcknowledgeType(types[part.first - first]))

    def _parts(
        self, batch: Batch, run: RecordRun, acknowledgement: Acknowledgement
    ) -> Sequence[RecordRun]:
        """Returns the run, cut where the type changes."""
        first, _, types = acknowledgement
        low = run.first - first
        given = types[low : run.last + 1 - first]
        changes = [
            Offset(run.first + at)
            for at, (before, after) in enumerate(pairwise(given), 1)
            if before != after
        ]
        return self._flight.cut_run(batch, run, changes)

    def _decide(self, run: RecordRun, given: AcknowledgeType) -> None:
        if given is AcknowledgeType.RENEW:
            if not self._rules.renews:
                raise _invalid_state(RENEWALS_DISABLED)
            self._flight.lock(run, self._now + self._rules.lock_seconds)
            return
        if given is AcknowledgeType.REJECT and self._rules.dead_letters:
            self._begin(run, ARCHIVING, Cause.REJECTED)
        else:
            self._begin(run, _STATES[given])

    # -- the end of a session, and of a lock

    def release(self, member: str, is_over: Callable[[], bool]) -> Generator[None, None, None]:
        """Releases all records that the member has acquired, in pieces; stops when `is_over` returns True after one."""
        flight = self._flight
        if not flight.batches:
            return
        first, last = flight.batches[0].first, flight.batches[-1].last
        self._cut_at_start()
        for piece in flight.pieces_between(first, last, PIECE):
            for _, run in piece:
                if run.state is ACQUIRED and run.member == member:
                    self._begin(run, self._released(run))
            if len(piece) < PIECE:
                return
            yield
            if is_over():
                return
            self._cut_at_start()

    def end_locks(self) -> None:
        """Releases at most `PIECE` runs of records whose locks have ended; takes effect immediately."""
        flight = self._flight
        changed: dict[Batch, None] = {}
        for due in self._due():
            batch = flight.floor(due.first)
            assert batch is not None, "the batches of locked records are kept"
            changed[batch] = None
            is_cut = due.first < flight.start <= due.last
            for run in flight.cut_run(batch, due, [flight.start] if is_cut else ()):
                run.state, run.member = self._resolved(run, self._released(run)), NO_MEMBER
                flight.unlock(run)
                if run.state is AVAILABLE:
                    flight.may_have_free = True
                self.change.add(run, Cause.DELIVERED_TOO_OFTEN)
        for batch in changed:
            batch.merge()

    def _due(self) -> list[RecordRun]:
        """Removes locks that have ended; returns their runs, in order of offsets. Records whose change is in progress
        are left out: `finish` checks their deadlines if the write fails.
        """
        due: list[RecordRun] = []
        while len(due) < PIECE and (run := self._flight.locks.pop_due(self._now)) is not None:
            if run.state is ACQUIRED:
                due.append(run)
        return sorted(due, key=first_of_run)

    def _cut_at_start(self) -> None:
        """Cuts acquired records at the start: records before the start must not become free again."""
        flight = self._flight
        batch = flight.floor(flight.start)
        if batch is None or not batch.first < flight.start <= batch.last:
            return
        if batch.run_at(flight.start).state is ACQUIRED:
            flight.runs_between(batch, flight.start, batch.last)

    def _released(self, run: RecordRun) -> DeliveryState:
        return ARCHIVED if run.last < self._flight.start else AVAILABLE

    # -- changes

    def _resolved(self, run: RecordRun, state: DeliveryState) -> DeliveryState:
        """Returns the state that a run gets: a record with the maximum number of deliveries is archived instead of
        freed.
        """
        if state is AVAILABLE and run.count >= self._rules.deliveries_max:
            return ARCHIVING if self._rules.dead_letters else ARCHIVED
        return state

    def _begin(
        self, run: RecordRun, state: DeliveryState, cause: Cause = Cause.DELIVERED_TOO_OFTEN
    ) -> None:
        run.before, run.change = (run.state, run.member), self.change
        run.state, run.member = self._resolved(run, state), NO_MEMBER
        self.change.add(run, cause)


def _check_form(acknowledgement: Acknowledgement) -> None:
    first, last, types = acknowledgement
    if types and not AcknowledgeType.GAP <= min(types) <= max(types) <= AcknowledgeType.RENEW:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an acknowledge type does not exist")
    if last < first or len(types) not in (1, last - first + 1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "offsets and acknowledge types do not match")


def _check_held(run: RecordRun, member: str, not_acquired: str, not_owner: str) -> None:
    if run.state is not ACQUIRED:
        raise _invalid_state(not_acquired)
    if run.member != member:
        raise _invalid_state(not_owner)


def _past_acquired(which: str) -> KafkaError:
    text = f"{NOT_FOUND}The {which} offset in request is past acquired records."
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def _invalid_state(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


def finish(
    flight: InFlight, change: DeliveryChange, *, is_stored: bool, now: float
) -> Generator[None, None, None]:
    """Ends a change in pieces: its records keep their new state if the change is stored, and return to the old one
    otherwise.
    """
    changed: dict[Batch, None] = {}
    done = 0
    for stored in change.batches:
        done += 1
        for piece in flight.pieces_between(stored.first_offset, stored.last_offset, PIECE):
            for batch, run in piece:
                if run.change is change:
                    _finish_run(flight, run, change, is_stored=is_stored, now=now)
                changed[batch] = None
            done += len(piece)
            if done >= PIECE:
                done = 0
                yield
    for batch in changed:
        batch.merge()
        done += len(batch.runs)
        if done >= PIECE:
            done = 0
            yield
    lowest = min((stored.first_offset for stored in change.batches), default=flight.start)
    if lowest < flight.start:
        # The log start has moved beyond records that are free again: they cannot be read any more.
        flight.archive(lowest, Offset(flight.start - 1), AVAILABLE)


def _finish_run(
    flight: InFlight, run: RecordRun, change: DeliveryChange, *, is_stored: bool, now: float
) -> None:
    before, run.before, run.change = run.before, None, None
    if is_stored or run.deadline is None:  # without a lock, the run was archived meanwhile
        flight.unlock(run)
    elif run.deadline <= now:
        # The lock has ended during the write.
        run.state = ARCHIVED if run.count >= change.limit else AVAILABLE
        flight.unlock(run)
    else:
        assert before is not None, "a locked record keeps the state before"
        run.state, run.member = before
        flight.lock(run, run.deadline)  # `_due` may have removed the lock since `now`
    if run.state is AVAILABLE:
        flight.may_have_free = True
