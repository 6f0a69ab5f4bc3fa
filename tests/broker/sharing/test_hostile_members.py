"""Share sessions and acknowledgements out of order, of others, of absurd ranges and numbers: refused as by Kafka, with
its messages, and with bounded work.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import connection
from tests.broker.sharing.driver import LOCK_SECONDS, Driver
from tests.broker.sharing.rig import refusals, sharing_rig, shown
from tests.slow_steps import calls_of, calls_of_each
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.share_state.states import DeliveryState
from trimaran.broker.sharing.acknowledging import (
    NOT_ACQUIRED_BATCH,
    NOT_ACQUIRED_OFFSET,
    NOT_FOUND,
    NOT_OWNER_OF_BATCH,
    NOT_OWNER_OF_OFFSET,
    PIECE,
    RENEWALS_DISABLED,
    Acknowledgement,
)
from trimaran.broker.sharing.led_share import LedShare
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
NO_SESSION = (E.SHARE_SESSION_NOT_FOUND, E.SHARE_SESSION_NOT_FOUND.sentence)
WRONG_EPOCH = (E.INVALID_SHARE_SESSION_EPOCH, E.INVALID_SHARE_SESSION_EPOCH.sentence)


async def settle():
    await trio.testing.wait_all_tasks_blocked()


async def acquired(rig, size=10, **changes):
    """Lets member m acquire records; its next epoch is 2."""
    rig.produce(size)
    await rig.fetched(0, 0, **changes)
    await settle()
    await rig.fetched(1, **changes)
    assert [run.count for _, run in rig.share().core._flight.runs()] == [1]


async def outcome(handling):
    """Returns the code and message of a refused request; NONE and no message if it succeeds."""
    try:
        response = await handling
    except KafkaError as error:
        return error.code, error.message
    return E(response.error_code), response.error_message or ""


# -- sessions

FETCHES = {
    "doubled": ((1,), WRONG_EPOCH),
    "skipped": ((3,), WRONG_EPOCH),
    "negative": ((-2,), WRONG_EPOCH),
    "largest": ((INT32_MAX,), WRONG_EPOCH),
    "in order": ((2, 3), (E.NONE, "")),
    "in order after a refusal": ((5, 2), (E.NONE, "")),
    "final": ((-1,), (E.NONE, "")),
    "after the final": ((-1, 2), NO_SESSION),
    "final twice": ((-1, -1), NO_SESSION),
    "begun anew": ((0, 1), (E.NONE, "")),
    "that of the replaced session": ((0, 2), WRONG_EPOCH),
}


@pytest.mark.parametrize("name", FETCHES)
async def test_fetch_epochs_out_of_order_are_refused(tmp_path, name):
    epochs, expected = FETCHES[name]
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        for epoch in epochs:
            found = await outcome(rig.fetched(epoch, 0))
        assert found == expected


ACKNOWLEDGEMENTS = {
    "first": ((0,), WRONG_EPOCH),
    "doubled": ((2, 2), WRONG_EPOCH),
    "negative": ((-2,), WRONG_EPOCH),
    "largest": ((INT32_MAX,), WRONG_EPOCH),
    "in order": ((2, 3), (E.NONE, "")),
    "final twice": ((-1, -1), NO_SESSION),
}


@pytest.mark.parametrize("name", ACKNOWLEDGEMENTS)
async def test_acknowledge_epochs_out_of_order_are_refused(tmp_path, name):
    epochs, expected = ACKNOWLEDGEMENTS[name]
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        for epoch in epochs:
            found = await outcome(rig.acknowledged(epoch, {0: []}))
        assert found == expected


async def test_refused_epoch_changes_nothing(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        for epoch in (0, 1, 3, -2):
            await outcome(rig.acknowledged(epoch, {0: [(0, 9, [ACCEPT])]}))
        assert rig.states.written == []
        assert refusals(await rig.acknowledged(2, {0: [(0, 9, [ACCEPT])]})) == {0: 0}


async def test_first_fetch_must_not_acknowledge(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        found = await outcome(rig.fetched(0, acks={0: [(0, 9, [ACCEPT])]}))
        assert found == (E.INVALID_REQUEST, E.INVALID_REQUEST.sentence)
        assert refusals(await rig.acknowledged(2, {0: [(0, 9, [ACCEPT])]})) == {0: 0}


async def test_final_fetch_acknowledges_and_fetches_nothing(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.produce(5)
        assert shown(await rig.fetched(-1, 0, acks={0: [(0, 4, [ACCEPT])]})) == {0: (0, [], 0)}
        await settle()
        assert rig.states.written_batches == [(0, 4, 2, 1), (5, 9, 0, 1)]


async def test_renewal_asks_for_no_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        asked = {"max_bytes": 1, "min_bytes": 1, "max_records": 1, "max_wait_ms": 1}
        found = await outcome(rig.fetched(2, is_renew_ack=True, **asked))
        assert found == (
            E.INVALID_REQUEST,
            "maxBytes must be set to 0, minBytes must be set to 0, maxRecords must be set to 0, "
            "maxWaitMs must be set to 0, if isRenewAck is true.",
        )


# -- other members

OTHERS = {
    "batch": ([(0, 9, [ACCEPT])], NOT_OWNER_OF_BATCH),
    "part of a batch": ([(3, 4, [ACCEPT])], NOT_OWNER_OF_BATCH),
    "renewal": ([(0, 9, [RENEW])], NOT_OWNER_OF_BATCH),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_records_of_another_member_are_refused(tmp_path, name):
    batches, message = OTHERS[name]
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        await rig.fetched(0, 0, member_id="n")
        response = await rig.acknowledged(1, {0: batches}, member_id="n", is_renew_ack=True)
        (data,) = response.responses[0].partitions
        assert (data.error_code, data.error_message) == (E.INVALID_RECORD_STATE, message)
        assert rig.states.written == []


async def test_member_id_on_another_connection_replaces_the_session(tmp_path):
    """Kafka binds no member id to a connection or a principal."""
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        other = connection()
        assert await outcome(rig.fetched(0, 0, on=other)) == (E.NONE, "")
        assert await outcome(rig.fetched(2)) == WRONG_EPOCH
        rig.connection.mark_closed()
        await settle()
        assert rig.states.written == [], "the records are those of the session that is left"
        assert refusals(await rig.acknowledged(1, {0: [(0, 9, [ACCEPT])]}, on=other)) == {0: 0}


# -- ranges and types


def split():
    """Returns a share partition: m has 0 to 4 and 7 to 9, n has 10 to 19, 5 and 6 are free."""
    share = Driver()
    share.acquire((0, 9))
    share.acquire((10, 19), member="n")
    share.acknowledge((5, 6, [RELEASE]))
    return share


STATES = {
    "released offset": ((5, 5, [ACCEPT]), E.INVALID_RECORD_STATE, NOT_ACQUIRED_OFFSET),
    "range with a released offset": ((0, 9, [ACCEPT]), E.INVALID_RECORD_STATE, NOT_ACQUIRED_OFFSET),
    "batch of another": ((10, 19, [ACCEPT]), E.INVALID_RECORD_STATE, NOT_OWNER_OF_BATCH),
    "range into a batch of another": (
        (8, 12, [ACCEPT]),
        E.INVALID_RECORD_STATE,
        NOT_OWNER_OF_BATCH,
    ),
    "first beyond all": (
        (20, 25, [ACCEPT]),
        E.INVALID_REQUEST,
        NOT_FOUND + "The first offset in request is past acquired records.",
    ),
    "last beyond all": (
        (7, 20, [ACCEPT]),
        E.INVALID_REQUEST,
        NOT_FOUND + "The last offset in request is past acquired records.",
    ),
    "largest offset": (
        (INT64_MAX, INT64_MAX, [ACCEPT]),
        E.INVALID_REQUEST,
        NOT_FOUND + "The first offset in request is past acquired records.",
    ),
    "whole range of numbers": (
        (0, INT64_MAX, [ACCEPT]),
        E.INVALID_REQUEST,
        NOT_FOUND + "The last offset in request is past acquired records.",
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_absurd_range_is_refused_as_by_kafka(name):
    acknowledgement, code, message = STATES[name]
    share = split()
    before = share.shown()
    with pytest.raises(KafkaError) as refused:
        share.decide((7, 7, [ACCEPT]), acknowledgement)
    assert (refused.value.code, refused.value.message) == (code, message)
    share.release()
    assert share.shown() != before, "the first acknowledgement is undone"


def test_refusal_of_single_offset_has_its_reason():
    share = split()
    share.acquire((5, 6), at=5, member="n")
    share.acknowledge((10, 19, [RELEASE]), member="n")
    for place, message in ((5, NOT_OWNER_OF_OFFSET), (10, NOT_ACQUIRED_BATCH)):
        with pytest.raises(KafkaError) as refused:
            share.decide((place, place, [ACCEPT]))
        assert (refused.value.code, refused.value.message) == (E.INVALID_RECORD_STATE, message)


def test_range_before_all_records_is_not_found():
    share = Driver(start=5)
    with pytest.raises(KafkaError) as refused:
        share.decide((5, 9, [ACCEPT]))
    text = NOT_FOUND + "The request batch offsets are not found in the cache."
    assert (refused.value.code, refused.value.message) == (E.INVALID_RECORD_STATE, text)


def test_refusal_of_renewal_has_its_reason():
    share = Driver(renews=False)
    share.acquire((0, 9))
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 9, [RENEW]))
    assert (refused.value.code, refused.value.message) == (
        E.INVALID_RECORD_STATE,
        RENEWALS_DISABLED,
    )


MALFORMED = {
    "first after last": [(4, 3, [ACCEPT])],
    "out of order": [(5, 6, [ACCEPT]), (0, 1, [ACCEPT])],
    "overlapping": [(0, 6, [ACCEPT]), (5, 9, [ACCEPT])],
    "negative": [(-2, 1, [ACCEPT])],
    "smallest to largest": [(-INT64_MAX - 1, INT64_MAX, [ACCEPT])],
    "no types": [(0, 3, [])],
    "too few types": [(0, 3, [ACCEPT] * 3)],
    "too many types": [(0, 3, [ACCEPT] * 5)],
    "two types of one record": [(0, 0, [ACCEPT] * 2)],
    "type 5": [(0, 3, [5])],
    "type -1": [(0, 3, [ACCEPT, ACCEPT, ACCEPT, -1])],
    "renewal without its flag": [(0, 3, [RENEW])],
    "good before bad": [(0, 3, [ACCEPT]), (4, 9, [127])],
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_batches_change_nothing(tmp_path, name):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        response = await rig.acknowledged(2, {0: MALFORMED[name]})
        assert refusals(response) == {0: E.INVALID_REQUEST}
        assert shown(await rig.fetched(3, acks={0: MALFORMED[name]})) == {
            0: (0, [], E.INVALID_REQUEST)
        }
        assert rig.states.written == []
        assert refusals(await rig.acknowledged(4, {0: [(0, 9, [ACCEPT])]})) == {0: 0}


# -- large numbers

MANY = 10_000
# Function calls per record; work that is repeated for each record would take some ten thousand.
CALLS_EACH_MAX = 120


def full(**rules):
    """Returns a share partition with as many records in flight as a group may have, in one batch."""
    share = Driver(record_locks_max=MANY, **rules)
    share.acquire((0, MANY - 1), most=MANY, size=MANY)
    return share


ALTERNATING = {
    "types of one batch": [(0, MANY - 1, [ACCEPT, RELEASE] * (MANY // 2))],
    "batches": [(at, at, [ACCEPT + at % 2]) for at in range(MANY)],
    "rejected ones": [(0, MANY - 1, [ACCEPT, REJECT] * (MANY // 2))],
}


@pytest.mark.parametrize("name", ALTERNATING)
@pytest.mark.parametrize("is_stored", [True, False])
def test_each_record_has_its_type_within_bounds(name, is_stored):
    share = full()
    calls = calls_of(lambda: share.acknowledge(*ALTERNATING[name], is_stored=is_stored))
    assert calls < CALLS_EACH_MAX * MANY
    states = [run[2] for run in share.shown()]
    if not is_stored:
        assert set(states) == {"ACQUIRED"}
    elif name == "rejected ones":
        assert share.partition.start == MANY
    else:
        assert states[-4:] == ["ACKNOWLEDGED", "AVAILABLE"] * 2


def test_many_dead_letters_are_archived_within_bounds():
    share = full(dead_letters=True)
    change = share.decide((0, MANY - 1, [RELEASE, REJECT] * (MANY // 2)))
    share.finish(change)
    assert len(change.dead_letters) == MANY // 2
    calls = calls_of(lambda: share.finish(share.partition.archived(change.dead_letters)))
    assert calls < CALLS_EACH_MAX * MANY
    assert [run[2] for run in share.shown()[:4]] == ["AVAILABLE", "ARCHIVED"] * 2


def test_refused_request_undoes_many_batches():
    share = full()
    batches = [(at, at, [ACCEPT]) for at in range(MANY)] + [(MANY, MANY, [ACCEPT])]

    def refuse():
        with pytest.raises(KafkaError):
            share.decide(*batches)

    assert calls_of(refuse) < CALLS_EACH_MAX * MANY
    assert share.shown()[0][2] == "ACQUIRED"
    assert {run[2] for run in share.shown()} == {"ACQUIRED"}


def test_many_simultaneous_locks_end_within_bounds():
    share = Driver(record_locks_max=MANY)
    for at in range(MANY):
        share.acquire((at, at), most=1, size=1)
    calls = calls_of(lambda: share.pass_time(LOCK_SECONDS))
    assert calls < CALLS_EACH_MAX * MANY
    assert {run[2] for run in share.shown()} == {"AVAILABLE"}


LATE = 50_000
CALLS_IN_A_STEP_MAX = 150_000


@pytest.mark.parametrize("first", [0, 20])
async def test_thousands_of_batches_take_steps(tmp_path, first):
    """The batches are too late, or contain records that no member has acquired."""
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig, 20)
        rig.share().core.begin_at(20)
        handling = rig.acknowledge(2, {0: [(first, first, [ACCEPT])] * LATE})
        calls, outcomes = calls_of_each(handling)
        assert max(calls) < CALLS_IN_A_STEP_MAX
        assert len(calls) > LATE // 2_000
        expected = E.INVALID_REQUEST if first else E.NONE
        assert refusals(outcomes) == {0: expected}


def single_records(*, last=RELEASE):
    """Returns acknowledgements of 10,000 records one by one, with different types; the last one may be wrong."""
    types = [*[ACCEPT, RELEASE] * (MANY // 2 - 1), ACCEPT, last]
    return [Acknowledgement(at, at, [given]) for at, given in enumerate(types)]


def holding_many(size):
    """Returns a partition of which member m has acquired 10,000 records in batches of this size."""
    share = Driver(record_locks_max=MANY, renews=False)
    for at in range(0, MANY, size):
        share.acquire((at, at + size - 1), most=size, size=size)
    return share


@pytest.mark.parametrize("size", [1, MANY])
def test_many_acknowledgements_are_decided_and_finished_in_steps(size):
    share = holding_many(size)
    deciding = share.deciding("m", single_records())
    calls, change = calls_of_each(deciding)
    assert len(calls) == MANY // PIECE + 1
    assert max(calls) < CALLS_IN_A_STEP_MAX // 2
    assert len(change.batches) == MANY
    finishing = share.partition.finish(change, share.now, is_stored=True)
    calls, _ = calls_of_each(finishing)
    assert len(calls) > MANY // PIECE
    assert max(calls) < CALLS_IN_A_STEP_MAX // 2
    assert {run[2] for run in share.shown()} == {"AVAILABLE", "ACKNOWLEDGED"}


def renewed_at_the_end(share):
    with pytest.raises(KafkaError, match=RENEWALS_DISABLED):
        done(share.deciding("m", single_records(last=RENEW)))


def closed_in_between(share):
    deciding = share.deciding("m", single_records())
    next(deciding)
    next(deciding)
    assert {run[2] for run in share.shown()} > {"ACKNOWLEDGED", "ACQUIRED"}
    deciding.close()
    [undoing] = share.abandoned
    assert {run[2] for run in share.shown()} > {"ACKNOWLEDGED"}
    done(undoing)


def closed_while_undone(share):
    wrong = single_records(last=RENEW)
    deciding = share.deciding("m", wrong)
    for _ in range(MANY // PIECE):
        next(deciding)
    deciding.close()
    done(share.abandoned[0])


@pytest.mark.parametrize("size", [1, MANY])
@pytest.mark.parametrize("refuse", [renewed_at_the_end, closed_in_between, closed_while_undone])
def test_refusal_after_many_decisions_changes_nothing(refuse, size):
    share = holding_many(size)
    refuse(share)
    assert {run[2] for run in share.shown()} == {"ACQUIRED"}
    assert {run.member for _, run in share.partition._flight.runs()} == {"m"}
    share.pass_time(LOCK_SECONDS)
    assert {run[2] for run in share.shown()} == {"AVAILABLE"}


def test_lock_ended_between_steps_ends_after_refusal():
    """The lock was skipped, because its record was decided; the refusal uses the time of the first step."""
    share = holding_many(MANY)
    wrong = single_records(last=RENEW)
    deciding = share.deciding("m", wrong)
    next(deciding)
    share.pass_time(LOCK_SECONDS)
    with pytest.raises(KafkaError):
        done(deciding)
    share.pass_time(0)
    assert {run[2] for run in share.shown()} == {"AVAILABLE"}


async def test_acknowledgement_is_refused_after_partition_ends(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig, 4)
        share = rig.share()
        late = [Acknowledgement(at, at, [ACCEPT]) for at in [0] * PIECE]
        share.core._flight.start = 0
        deciding = share.acknowledge("m", [*late[:1], *[Acknowledgement(1, 1, [ACCEPT])]])
        share.end(KafkaError(E.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(KafkaError) as refused:
            done(deciding)
        assert refused.value.code is E.NOT_LEADER_OR_FOLLOWER


async def test_session_ends_in_steps_of_one_partition(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        for index in range(3):
            rig.produce(1, index=index)
        await rig.fetched(0, 0, 1, 2)
        await settle()
        await rig.fetched(1)
        await rig.fetched(2)
        await rig.fetched(3)
        held = [rig.share(index).core for index in range(3)]
        assert [run.state for core in held for run in core.states()] == [DeliveryState.ACQUIRED] * 3
        session = rig.sharing.sessions.resume("g", "m", -1, (), ())
        assert len(list(rig.sharing.end_session(session))) == 3 + 3
        await settle()
        assert {run.state for core in held for run in core.states()} == {DeliveryState.AVAILABLE}
        assert len(rig.sharing) == 0


async def test_many_locks_end_partition_by_partition(tmp_path, monkeypatch):
    steps, partitions = [], 5

    class Steps(trio.abc.Instrument):
        ended = 0

        def after_task_step(self, _task):
            steps.append(self.ended)
            self.ended = 0

    instrument, original = Steps(), LedShare.end_locks

    def counted(share):
        instrument.ended += 1
        original(share)

    monkeypatch.setattr(LedShare, "end_locks", counted)
    async with sharing_rig(tmp_path, partitions=partitions) as rig:
        for index in range(partitions):
            rig.produce(3, index=index)
        await rig.fetched(0, *range(partitions))
        await settle()
        await rig.fetched(1)
        trio.lowlevel.add_instrument(instrument)
        rig.harness.now += 30
        rig.sharing.set_timer(rig.share(0), rig.harness.now - 1)
        rig.sharing._timer_changed.set()
        await settle()
        trio.lowlevel.remove_instrument(instrument)
        assert sum(steps) == partitions
        assert max(steps) == 1
