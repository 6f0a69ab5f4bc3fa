"""Bugs of the share partitions of a leader: acquisition, acknowledgement, locks, counts, limits, writes, letters."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest import mock

from trimaran.broker.share_state.states import StateBatch
from trimaran.broker.sharing import acknowledging, led_share, share_partition
from trimaran.broker.sharing.acknowledging import Decisions
from trimaran.broker.sharing.acquiring import Acquisition
from trimaran.broker.sharing.in_flight import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    InFlight,
    RecordRun,
)
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.rules import AcknowledgeType
from trimaran.broker.sharing.sessions import ShareSessions
from trimaran.broker.sharing.share_partition import SharePartition
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError

Patch = AbstractContextManager[Any]


def _anybody_acknowledges() -> Patch:
    """A member acknowledges records that another member holds."""
    return mock.patch.object(acknowledging, "_check_held", return_value=None)


def _only_the_state_is_checked() -> Patch:
    def check(run: RecordRun, _member: str, _not_acquired: str, _not_owner: str) -> None:
        if run.state is not ACQUIRED:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE)

    return mock.patch.object(acknowledging, "_check_held", check)


def _count_stays() -> Patch:
    """A record that is delivered again keeps its delivery count."""
    real = Acquisition._take

    def take(self: Any, run: RecordRun, parts: Any = None) -> None:
        run.count = max(0, run.count - 1)
        real(self, run, parts)

    return mock.patch.object(Acquisition, "_take", take)


def _limit_is_exceeded() -> Patch:
    """A record is delivered once more than allowed."""

    def resolved(self: Any, run: RecordRun, state: Any) -> Any:
        if state is AVAILABLE and run.count > self._rules.deliveries_max:
            return ARCHIVED
        return state

    return mock.patch.object(Decisions, "_resolved", resolved)


def _limit_is_reached_early() -> Patch:
    def resolved(self: Any, run: RecordRun, state: Any) -> Any:
        if state is AVAILABLE and run.count >= self._rules.deliveries_max - 1:
            return ARCHIVED
        return state

    return mock.patch.object(Decisions, "_resolved", resolved)


def _locks_end_early() -> Patch:
    real = SharePartition.acquire

    def acquire(
        self: Any, fetched: Any, at: Any, demand: Any, rules: Any, now: Any, *more: Any
    ) -> Any:
        rules = rules._replace(lock_seconds=rules.lock_seconds / 2)
        return real(self, fetched, at, demand, rules, now, *more)

    return mock.patch.object(SharePartition, "acquire", acquire)


def _locks_never_end() -> Patch:
    return mock.patch.object(InFlight, "lock", return_value=None)


def _acquired_records_are_free() -> Patch:
    """A record that a member holds is given to another one."""
    is_free = property(lambda run: run.state in (AVAILABLE, ACQUIRED) and run.change is None)
    return mock.patch.object(RecordRun, "is_free", is_free)


def _renewals_end_locks() -> Patch:
    """A renewal releases the record."""
    real = Decisions._decide

    def decide(self: Any, run: RecordRun, given: AcknowledgeType) -> None:
        if given is AcknowledgeType.RENEW:
            given = AcknowledgeType.RELEASE
        real(self, run, given)

    return mock.patch.object(Decisions, "_decide", decide)


def _renewals_are_ignored() -> Patch:
    real = Decisions._decide

    def decide(self: Any, run: RecordRun, given: AcknowledgeType) -> None:
        if given is not AcknowledgeType.RENEW:
            real(self, run, given)

    return mock.patch.object(Decisions, "_decide", decide)


def _rejected_records_are_free() -> Patch:
    real = Decisions._decide

    def decide(self: Any, run: RecordRun, given: AcknowledgeType) -> None:
        if given is AcknowledgeType.REJECT:
            self._begin(run, AVAILABLE)
        else:
            real(self, run, given)

    return mock.patch.object(Decisions, "_decide", decide)


def _releases_are_acceptances() -> Patch:
    """A released record counts as done."""
    states = {**acknowledging._STATES, AcknowledgeType.RELEASE: ACKNOWLEDGED}
    return mock.patch.object(acknowledging, "_STATES", states)


def _answers_before_the_write() -> Patch:
    """An acknowledgement is answered before it is stored."""
    real = LedShare._store

    def store(self: Any, change: Any) -> Any:
        real(self, change)
        pending = PendingResponse[None]()
        pending.complete(None)
        return pending

    return mock.patch.object(LedShare, "_store", store)


def _failed_writes_count() -> Patch:
    """A change whose write has failed is kept, and answered as a success."""

    async def write(self: Any) -> None:
        core = self.core
        batches = self._take()
        with suppress(KafkaError):
            await self._owner.states.write(self.key, core.summary(), batches)
        written, self._written = self._written, []
        for change, pending in written:
            for _ in core.finish(change, self._owner.now(), is_stored=True):
                pass
            pending.complete(None)
        self._noted()
        self._wake()

    return mock.patch.object(LedShare, "_write", write)


def _failed_writes_are_not_undone() -> Patch:
    """After a failed write the new state stays in memory, although the member gets an error."""
    real = share_partition.finish

    def finish(flight: Any, change: Any, *, is_stored: bool, now: float) -> Any:
        return real(flight, change, is_stored=True, now=now)

    return mock.patch.object(share_partition, "finish", finish)


def _changes_are_free_at_once() -> Patch:
    """A released record is delivered before its release is stored."""
    is_free = property(lambda run: run.state is AVAILABLE)
    return mock.patch.object(RecordRun, "is_free", is_free)


def _start_passes_unstored_changes() -> Patch:
    """The start moves over records whose acknowledgement is not stored yet."""
    is_done = property(lambda run: run.state in (ACKNOWLEDGED, ARCHIVED))
    return mock.patch.object(RecordRun, "is_done", is_done)


def _only_the_last_batch_is_stored() -> Patch:
    real = LedShare._take

    def take(self: Any) -> list[StateBatch]:
        return real(self)[-1:]

    return mock.patch.object(LedShare, "_take", take)


def _stored_states_are_ignored() -> Patch:
    """A new leader begins at the stored start, and forgets the states behind it."""
    return mock.patch.object(SharePartition, "_load", return_value=None)


def _counts_begin_again() -> Patch:
    """A new leader forgets delivery counts."""
    real = SharePartition._load

    def load(self: Any, batches: Any) -> None:
        real(
            self, [batch._replace(delivery_count=min(1, batch.delivery_count)) for batch in batches]
        )

    return mock.patch.object(SharePartition, "_load", load)


def _gaps_are_skipped() -> Patch:
    """A new leader skips records between the stored states."""
    real = SharePartition._load

    def load(self: Any, batches: Any) -> None:
        real(self, batches)
        self._flight.window = None
        self._flight.advance()

    return mock.patch.object(SharePartition, "_load", load)


def _locks_are_unlimited() -> Patch:
    real = Acquisition._last_allowed

    def last_allowed(self: Any, fetch_offset: Any) -> Any:
        self._rules = self._rules._replace(record_locks_max=1 << 30)
        return real(self, fetch_offset)

    return mock.patch.object(Acquisition, "_last_allowed", last_allowed)


def _record_limit_is_ignored() -> Patch:
    """In the mode RECORD_LIMIT more records are acquired than requested."""
    real = Acquisition.acquire

    def acquire(self: Any, fetch_offset: Any) -> Any:
        self._is_exact = False
        return real(self, fetch_offset)

    return mock.patch.object(Acquisition, "acquire", acquire)


def _epochs_of_sessions_do_not_count() -> Patch:
    """A repeated request is served twice."""
    real = ShareSessions.resume

    def resume(
        self: Any, group_id: str, member_id: str, epoch: Any, added: Any, forgotten: Any
    ) -> Any:
        session = self._find(group_id, member_id)
        session.epoch = epoch if epoch > 0 else session.epoch
        return real(self, group_id, member_id, epoch, added, forgotten)

    return mock.patch.object(ShareSessions, "resume", resume)


def _old_leaders_go_on() -> Patch:
    """A share partition does not notice that its leader's epoch has ended."""
    return mock.patch.object(LedShare, "data_changed", lambda self, _interest: self._wake())


def _log_start_is_ignored() -> Patch:
    return mock.patch.object(SharePartition, "begin_at", return_value=None)


def _log_start_skips_records() -> Patch:
    """If the log start moves, the share partition begins one record later."""
    real = SharePartition.begin_at

    def begin_at(self: Any, log_start: Any) -> None:
        real(self, log_start + 1 if log_start > self.start else log_start)

    return mock.patch.object(SharePartition, "begin_at", begin_at)


def _groups_begin_at_the_end() -> Patch:
    """A group without a position begins at the end, whatever its configuration is."""

    async def begin(leader: Any, reset: str, now_ms: int) -> Any:
        return leader.committed_end

    return mock.patch.object(led_share, "offset_to_begin", begin)


def _rejections_get_no_letters() -> Patch:
    real = Decisions._begin

    def begin(self: Any, run: RecordRun, state: Any, *cause: Any) -> None:
        real(self, run, ARCHIVED if state is ARCHIVING else state, *cause)

    return mock.patch.object(Decisions, "_begin", begin)


def _letters_of_earlier_leaders_are_lost() -> Patch:
    """A new leader does not resume the dead letters that its predecessor has not sent."""
    real = SharePartition._load

    def load(self: Any, batches: Any) -> None:
        real(self, batches)
        for batch in self.resumed:
            self._flight.archive(batch.first_offset, batch.last_offset, ARCHIVING)
        self.resumed = []
        self._flight.advance()

    return mock.patch.object(SharePartition, "_load", load)


def _accepted_records_get_letters() -> Patch:
    real = Decisions._decide

    def decide(self: Any, run: RecordRun, given: AcknowledgeType) -> None:
        if given is AcknowledgeType.ACCEPT and self._rules.dead_letters:
            self._begin(run, ARCHIVING, acknowledging.Cause.REJECTED)
        else:
            real(self, run, given)

    return mock.patch.object(Decisions, "_decide", decide)


def _released_records_are_done() -> Patch:
    """The records of an ended session, or of a lock that ends, are archived."""
    return mock.patch.object(Decisions, "_released", return_value=ARCHIVED)


def _stored_starts_are_ahead() -> Patch:
    """The stored start is one record too high, so it omits the first record in flight."""
    real = SharePartition.summary

    def summary(self: Any) -> Any:
        told = real(self)
        return told._replace(start_offset=told.start_offset + bool(self.size))

    return mock.patch.object(SharePartition, "summary", summary)


def _letters_have_other_counts() -> Patch:
    real = LedShare._send

    def send(self: Any, letters: Any) -> None:
        real(self, [each._replace(batch=_once_more(each.batch)) for each in letters])

    return mock.patch.object(LedShare, "_send", send)


def _once_more(batch: StateBatch) -> StateBatch:
    return batch._replace(delivery_count=batch.delivery_count + 1)


def _letters_blame_the_member() -> Patch:
    """Each dead letter says that a member has rejected the record."""
    real = LedShare._send

    def send(self: Any, letters: Any) -> None:
        real(self, [each._replace(cause=acknowledging.Cause.REJECTED) for each in letters])

    return mock.patch.object(LedShare, "_send", send)


_MOVES = {
    "balance_every": 0.2,
    "delay_max": 0.02,
    "isolate_every": 0.0,
    "disk_fails_every": 0.0,
    "wipe": 0.0,
}
_KEEPS = {"keeps": 0.6, "freeze": 0.0, "lock_ms": 200, "members": 3, **_MOVES}
_EXPLICIT = {"explicit": 0.9, "freeze": 0.0, "locks": 200, **_MOVES}
_LETTERS = {**_EXPLICIT, "queue": "there", "deliveries": 2}
_FAILS = {**_MOVES, "attempts": 1, "delay_max": 0.1}
_STILL = {**_EXPLICIT, "balance_every": 0.0, "crash_every": 0.0, "stop_every": 0.0}
ANY = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q9", "Q12", "Q13", "L1")
SHARING: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    (
        "any member acknowledges any record",
        _anybody_acknowledges,
        ANY,
        _KEEPS,
    ),
    (
        "any member acknowledges acquired records",
        _only_the_state_is_checked,
        ANY,
        _KEEPS,
    ),
    ("delivery counts stay", _count_stays, ANY, _EXPLICIT),
    ("delivery limit is exceeded", _limit_is_exceeded, ANY, _EXPLICIT),
    (
        "delivery limit is reached early",
        _limit_is_reached_early,
        ANY,
        {**_EXPLICIT, "deliveries": 5},
    ),
    ("locks end early", _locks_end_early, ANY, {**_KEEPS, "lock_ms": 1000}),
    ("locks never end", _locks_never_end, ANY, {**_KEEPS, **_STILL}),
    ("acquired records are free", _acquired_records_are_free, ANY, _KEEPS),
    ("renewals release", _renewals_end_locks, ANY, {**_EXPLICIT, "renews": True}),
    (
        "renewals are ignored",
        _renewals_are_ignored,
        ANY,
        {**_KEEPS, "explicit": 0.9, "renews": True},
    ),
    ("rejected records are free", _rejected_records_are_free, ANY, _EXPLICIT),
    ("releases are acceptances", _releases_are_acceptances, ANY, _STILL),
    ("answers before the write", _answers_before_the_write, ANY, _MOVES),
    ("failed writes count", _failed_writes_count, ANY, _MOVES),
    (
        "failed writes are not undone",
        _failed_writes_are_not_undone,
        ANY,
        {**_FAILS, "explicit": 0.0},
    ),
    ("released records are free before the write", _changes_are_free_at_once, ANY, _EXPLICIT),
    ("start passes unstored changes", _start_passes_unstored_changes, ANY, _MOVES),
    ("only the last batch is stored", _only_the_last_batch_is_stored, ANY, _EXPLICIT),
    ("stored states are ignored", _stored_states_are_ignored, ANY, _EXPLICIT),
    ("counts begin again", _counts_begin_again, ANY, {**_EXPLICIT, "deliveries": 5}),
    ("gaps are skipped", _gaps_are_skipped, ANY, {**_EXPLICIT, "members": 3}),
    (
        "locks are unlimited",
        _locks_are_unlimited,
        ANY,
        {"locks": 6, "freeze": 0.2, "explicit": 0.9},
    ),
    ("record limit is ignored", _record_limit_is_ignored, ANY, {"record_limit": True, "most": 1}),
    (
        "session epochs do not count",
        _epochs_of_sessions_do_not_count,
        ANY,
        {"stuck": 0.2, "explicit": 0.9},
    ),
    ("old leaders go on", _old_leaders_go_on, ANY, _MOVES),
    ("log start is ignored", _log_start_is_ignored, ANY, {"delete_records_every": 0.3}),
    ("log start skips records", _log_start_skips_records, ANY, {"delete_records_every": 0.3}),
    ("groups begin at the end", _groups_begin_at_the_end, ANY, {"reset": "earliest"}),
    ("rejections get no letters", _rejections_get_no_letters, ANY, _LETTERS),
    ("letters of earlier leaders are lost", _letters_of_earlier_leaders_are_lost, ANY, _LETTERS),
    ("accepted records get letters", _accepted_records_get_letters, ANY, _LETTERS),
    ("released records are done", _released_records_are_done, ANY, {**_KEEPS, "deliveries": 5}),
    ("stored starts are ahead", _stored_starts_are_ahead, ANY, _MOVES),
    ("letters have other counts", _letters_have_other_counts, ANY, _LETTERS),
    ("letters blame the member", _letters_blame_the_member, ANY, _LETTERS),
)
