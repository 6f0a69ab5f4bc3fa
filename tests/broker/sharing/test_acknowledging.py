"""Acknowledgements, releases and the end of locks: what is stored, what is undone, and what is refused."""

from __future__ import annotations

import pytest

from tests.broker.sharing.driver import LOCK_SECONDS, Driver, states
from trimaran.broker.share_state.states import ShareSummary
from trimaran.broker.sharing.acknowledging import (
    NOT_OWNER_OF_BATCH,
    NOT_OWNER_OF_OFFSET,
    PIECE,
    Acknowledgement,
    Cause,
    DeadLetters,
    as_letters,
)
from trimaran.broker.sharing.share_partition import SharePartition
from trimaran.wire.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def acquired(**rules):
    """Returns a share partition with ten records that member m holds."""
    share = Driver(**rules)
    share.acquire((0, 9))
    return share


@pytest.mark.parametrize(
    ("given", "state"),
    [(GAP, "ARCHIVED"), (ACCEPT, "ACKNOWLEDGED"), (RELEASE, "AVAILABLE"), (REJECT, "ARCHIVED")],
)
def test_type_decides_the_stored_state(given, state):
    share = acquired()
    assert share.acknowledge((0, 9, [given])) == states((0, 9, state, 1))
    if given == RELEASE:
        assert (share.partition.start, share.partition.next_fetch_offset()) == (0, 0)
    else:
        assert (share.partition.start, share.partition.size) == (10, 0)


def test_records_have_their_own_types():
    share = acquired()
    change = share.decide((0, 9, [1, 1, 2, 2, 3, 1, 0, 0, 1, 1]))
    assert share.partition.summary() == ShareSummary(4, 7, 0, 8)
    assert share.finish(change) == states(
        (0, 1, "ACKNOWLEDGED", 1),
        (2, 3, "AVAILABLE", 1),
        (4, 4, "ARCHIVED", 1),
        (5, 5, "ACKNOWLEDGED", 1),
        (6, 7, "ARCHIVED", 1),
        (8, 9, "ACKNOWLEDGED", 1),
    )
    assert (share.partition.start, share.partition.end) == (2, 9)
    assert share.acquire((0, 9), at=2) == [(2, 3, 2)]


def test_part_of_a_batch_is_acknowledged():
    share = acquired()
    assert share.acknowledge((3, 5, [ACCEPT])) == states((3, 5, "ACKNOWLEDGED", 1))
    assert share.shown() == [
        (0, 2, "ACQUIRED", 1), (3, 5, "ACKNOWLEDGED", 1), (6, 9, "ACQUIRED", 1)
    ]  # fmt: skip
    assert share.partition.start == 0
    share.acknowledge((0, 2, [ACCEPT]))
    assert (share.partition.start, share.partition.summary().delivery_complete_count) == (6, 0)


def test_several_batches_are_stored_as_one():
    share = acquired()
    share.acquire((10, 19))
    assert share.acknowledge((0, 9, [1]), (10, 19, [1])) == states((0, 19, "ACKNOWLEDGED", 1))


def test_failed_write_returns_the_records():
    share = acquired()
    assert share.acknowledge((0, 9, [ACCEPT]), is_stored=False) == states((0, 9, "ACKNOWLEDGED", 1))
    assert share.shown() == [(0, 9, "ACQUIRED", 1)]
    assert share.partition.next_deadline == LOCK_SECONDS
    assert share.acknowledge((0, 9, [ACCEPT])) == states((0, 9, "ACKNOWLEDGED", 1))


@pytest.mark.parametrize(("limit", "state"), [(2, "AVAILABLE"), (1, "ARCHIVED")])
def test_lock_that_ended_during_failed_write_applies(limit, state):
    share = acquired(deliveries_max=limit)
    change = share.decide((0, 9, [ACCEPT]))
    assert share.pass_time(LOCK_SECONDS) == []
    share.finish(change, is_stored=False)
    assert share.shown() == ([] if state == "ARCHIVED" else [(0, 9, state, 1)])
    assert share.partition.next_deadline is None


def test_records_are_blocked_during_a_write():
    share = acquired()
    change = share.decide((0, 4, [RELEASE]))
    assert share.partition.next_fetch_offset() == 10
    assert share.acquire((0, 9), at=0, member="n") == []
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 4, [ACCEPT]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    share.finish(change)
    assert share.acquire((0, 9), at=0, member="n") == [(0, 4, 2)]


def test_two_changes_are_finished_in_either_order():
    share = acquired()
    first, second = share.decide((0, 4, [ACCEPT])), share.decide((5, 9, [ACCEPT]))
    share.finish(second)
    assert share.partition.start == 0
    share.finish(first)
    assert share.partition.start == 10


@pytest.mark.parametrize(
    ("acknowledgement", "code"),
    [
        ((0, 9, [5]), ErrorCode.INVALID_REQUEST),
        ((0, 9, [-1]), ErrorCode.INVALID_REQUEST),
        ((5, 6, [-1, 1]), ErrorCode.INVALID_REQUEST),
        ((5, 6, [1, 5]), ErrorCode.INVALID_REQUEST),
        ((0, 9, []), ErrorCode.INVALID_REQUEST),
        ((0, 9, [1, 1]), ErrorCode.INVALID_REQUEST),
        ((9, 0, [1]), ErrorCode.INVALID_REQUEST),
        ((0, 10, [1]), ErrorCode.INVALID_REQUEST),
        ((10, 12, [1]), ErrorCode.INVALID_REQUEST),
        ((0, 1 << 62, [1]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_absurd_ranges_and_types_are_refused(acknowledgement, code):
    share = acquired()
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 4, [ACCEPT]), acknowledgement)
    assert refused.value.code is code
    assert share.shown() == [(0, 4, "ACQUIRED", 1), (5, 9, "ACQUIRED", 1)]


def test_record_of_another_member_is_refused():
    share = acquired()
    for each in ((0, 9, [ACCEPT]), (3, 4, [ACCEPT]), (3, 4, [RENEW])):
        with pytest.raises(KafkaError) as refused:
            share.decide(each, member="n")
        assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_acknowledging_twice_is_refused():
    share = acquired()
    share.acquire((10, 19), at=10)
    share.acknowledge((3, 9, [ACCEPT]))
    with pytest.raises(KafkaError) as refused:
        share.decide((3, 3, [ACCEPT]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    share.acknowledge((0, 2, [ACCEPT]))
    assert share.acknowledge((0, 9, [ACCEPT])) == []  # before the start: ignored


def test_range_without_a_batch_is_refused():
    share = Driver(start=5)
    with pytest.raises(KafkaError) as refused:
        share.decide((5, 9, [ACCEPT]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_lock_ends_at_its_time():
    share = acquired()
    assert share.partition.next_deadline == LOCK_SECONDS
    assert share.pass_time(LOCK_SECONDS - 1) == []
    assert share.pass_time(1) == states((0, 9, "AVAILABLE", 1))
    assert share.partition.next_deadline is None
    assert share.partition.next_fetch_offset() == 0
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 9, [ACCEPT]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_renewal_restarts_the_lock():
    share = acquired()
    share.pass_time(20)
    assert share.acknowledge((3, 4, [RENEW])) == []
    assert share.pass_time(10) == states((0, 2, "AVAILABLE", 1), (5, 9, "AVAILABLE", 1))
    assert share.shown()[1] == (3, 4, "ACQUIRED", 1)
    assert share.partition.next_deadline == 50
    assert share.pass_time(20) == states((3, 4, "AVAILABLE", 1))


def test_refused_request_keeps_renewals_before_the_error():
    share = acquired()
    share.now += 20
    with pytest.raises(KafkaError):
        share.decide((0, 3, [RENEW]), (4, 5, [ACCEPT]), (6, 20, [ACCEPT]))
    assert share.pass_time(LOCK_SECONDS - 20) == states((4, 9, "AVAILABLE", 1))
    assert share.pass_time(20) == states((0, 3, "AVAILABLE", 1))


def test_renewal_may_be_forbidden():
    share = acquired(renews=False)
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 9, [RENEW]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(("limit", "state"), [(1, "ARCHIVED"), (2, "AVAILABLE")])
def test_record_at_delivery_limit_is_archived(limit, state):
    for end in (
        lambda share: share.acknowledge((0, 9, [RELEASE])),
        lambda share: share.release(),
        lambda share: share.pass_time(LOCK_SECONDS),
    ):
        share = acquired(deliveries_max=limit)
        assert end(share) == states((0, 9, state, 1))
        assert share.partition.start == (10 if limit == 1 else 0)


def test_session_end_releases_only_its_records():
    share = acquired()
    share.acquire((10, 19), member="n")
    share.acknowledge((0, 3, [ACCEPT]))
    assert share.release() == states((4, 9, "AVAILABLE", 1))
    assert share.shown() == [(0, 3, "ACKNOWLEDGED", 1), (4, 9, "AVAILABLE", 1),
                             (10, 19, "ACQUIRED", 1)]  # fmt: skip
    assert share.release("nobody") == []


@pytest.mark.parametrize("start", [1, 4, 9])
def test_released_record_before_start_is_archived(start):
    for end in (lambda share: share.release(), lambda share: share.pass_time(LOCK_SECONDS)):
        share = acquired()
        share.acquire((10, 19))
        share.partition.begin_at(start)
        assert end(share) == states((0, start - 1, "ARCHIVED", 1), (start, 19, "AVAILABLE", 1))


def test_released_record_may_be_archived_meanwhile():
    share = acquired()
    share.acquire((10, 19), at=10)
    change = share.decide((0, 9, [RELEASE]))
    share.partition.begin_at(5)
    share.finish(change, is_stored=False)
    assert share.shown() == [
        (0, 4, "ARCHIVED", 1), (5, 9, "ACQUIRED", 1), (10, 19, "ACQUIRED", 1)
    ]  # fmt: skip


def test_rejected_records_become_dead_letters():
    share = acquired(dead_letters=True, deliveries_max=1)
    change = share.decide((0, 4, [REJECT]), (5, 6, [GAP]), (7, 9, [RELEASE]))
    letters = [
        DeadLetters(states((0, 4, "ARCHIVING", 1))[0], Cause.REJECTED),
        DeadLetters(states((7, 9, "ARCHIVING", 1))[0], Cause.DELIVERED_TOO_OFTEN),
    ]
    assert change.dead_letters == letters
    assert share.finish(change) == states(
        (0, 4, "ARCHIVING", 1), (5, 6, "ARCHIVED", 1), (7, 9, "ARCHIVING", 1)
    )
    assert share.partition.start == 0
    archived = share.partition.archived(letters[:1])
    assert share.finish(archived) == states((0, 4, "ARCHIVED", 1))
    assert share.partition.start == 7
    share.partition.archived(letters[1:])
    assert share.partition.start == 10


def test_stored_dead_letters_are_resumed():
    share = Driver(batches=states((0, 4, "ARCHIVING", 2)))
    batch = states((0, 4, "ARCHIVING", 2))[0]
    assert share.partition.resumed == [batch]


@pytest.mark.parametrize(
    ("limit", "cause"),
    [(1, Cause.DELIVERED_TOO_OFTEN), (2, Cause.DELIVERED_TOO_OFTEN), (3, Cause.REJECTED)],
)
def test_cause_of_resumed_letters_depends_on_count(limit, cause):
    batch = states((0, 4, "ARCHIVING", 2))[0]
    assert as_letters(batch, limit) == DeadLetters(batch, cause)


@pytest.mark.parametrize(
    "batches",
    [[(4, 9, "AVAILABLE", 1)], [(9, 8, "AVAILABLE", 1)],
     [(5, 9, "AVAILABLE", 1), (9, 12, "AVAILABLE", 1)]],
)  # fmt: skip
def test_contradicting_state_is_refused(batches):
    with pytest.raises(KafkaError) as refused:
        Driver(start=5, batches=states(*batches))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_finished_state_moves_start_at_load():
    share = Driver(start=5, batches=states((5, 9, "ACKNOWLEDGED", 1), (10, 12, "ARCHIVED", 2)))
    assert isinstance(share.partition, SharePartition)
    assert (share.partition.start, share.partition.end, share.shown()) == (13, 13, [])


def test_equal_neighbours_become_one_run():
    share = acquired()
    for offset in range(10):
        share.acknowledge((offset, offset, [RELEASE]))
    assert share.shown() == [(0, 9, "AVAILABLE", 1)]


def test_acknowledged_records_of_loaded_state_free_locks():
    share = Driver(0, states((3, 7, "ACKNOWLEDGED", 1)), record_locks_max=4)
    assert share.acquire((0, 2)) == [(0, 2, 1)]
    share.acknowledge((0, 2, [1]))
    assert (share.partition.start, share.partition.size) == (8, 0)
    assert share.partition.can_acquire(share.rules)


@pytest.mark.parametrize(
    ("start", "acknowledgement", "words"),
    [
        (0, (0, 9, [ACCEPT]), NOT_OWNER_OF_BATCH),
        (0, (0, 9, [ACCEPT] * 10), NOT_OWNER_OF_OFFSET),
        (0, (0, 8, [ACCEPT]), NOT_OWNER_OF_OFFSET),
        (0, (1, 9, [ACCEPT]), NOT_OWNER_OF_OFFSET),
        (3, (0, 9, [ACCEPT]), NOT_OWNER_OF_OFFSET),
        (3, (3, 9, [ACCEPT]), NOT_OWNER_OF_OFFSET),
    ],
)
def test_acknowledged_part_splits_the_batch_by_offset(start, acknowledgement, words):
    share = acquired()
    share.partition.begin_at(start)
    share.acknowledge(acknowledgement, is_stored=False)
    with pytest.raises(KafkaError) as refused:
        share.decide((start, 9, [ACCEPT]), member="n")
    assert refused.value.message == words


@pytest.mark.parametrize(("first", "last"), [(9, 12), (11, 12), (12, 12), (0, 14)])
def test_range_may_begin_before_the_start(first, last):
    share = Driver(12, states((12, 14, "AVAILABLE", 1)))
    share.acquire((12, 14))
    assert share.acknowledge((first, last, [ACCEPT])) == states((12, last, "ACKNOWLEDGED", 2))


def test_range_in_a_gap_is_refused():
    share = Driver(10, states((15, 19, "AVAILABLE", 1)))
    share.acquire((15, 19), at=15)
    for first in (10, 14):
        with pytest.raises(KafkaError) as refused:
            share.decide((first, 16, [ACCEPT]))
        assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("failing", [0, 1])
def test_changes_of_neighbouring_records_end_independently(failing):
    share = acquired()
    changes = [share.decide((0, 4, [REJECT])), share.decide((5, 9, [REJECT]))]
    for each in (1 - failing, failing):
        share.finish(changes[each], is_stored=each != failing)
    ends = ["ACQUIRED" if each == failing else "ARCHIVED" for each in (0, 1)]
    assert share.shown() == [(0, 4, ends[0], 1), (5, 9, ends[1], 1)]


def test_change_of_two_batches_ends_every_run():
    share = acquired()
    share.acquire((10, 19))
    share.acknowledge((12, 13, [RENEW]))
    assert share.acknowledge((0, 19, [RELEASE])) == states((0, 19, "AVAILABLE", 1))
    assert share.partition.next_deadline is None
    assert share.acquire((0, 9), (10, 19)) == [(0, 9, 2), (10, 19, 2)]


def ended(work):
    """Returns the number of pauses of the work, and its result."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return pauses, stop.value
        pauses += 1


@pytest.mark.parametrize(
    ("count", "deciding", "finishing"),
    [(PIECE - 1, 0, 1 + 1), (PIECE, 1, 2 + 1), (2 * PIECE - 1, 1, 3 + 2), (2 * PIECE, 2, 4 + 2)],
)
def test_change_pauses_after_each_piece(count, deciding, finishing):
    share = Driver(record_locks_max=count)
    for at in range(count):
        share.acquire((at, at))
    given = [Acknowledgement(at, at, [(RELEASE, REJECT)[at % 2]]) for at in range(count)]
    pauses, change = ended(share.partition.acknowledge("m", given, share.rules, 0.0, None))
    assert (pauses, len(change.batches)) == (deciding, count)
    assert ended(share.partition.finish(change, 0.0, is_stored=True)) == (finishing, None)


def test_failed_changes_below_log_start_are_dropped():
    share = acquired()
    share.acquire((10, 19))
    change = share.decide((0, 4, [ACCEPT]), (10, 14, [ACCEPT]))
    share.partition.begin_at(12)
    share.pass_time(LOCK_SECONDS)
    assert share.shown()[0] == (0, 4, "ACKNOWLEDGED", 1)
    share.finish(change, is_stored=False)
    assert share.partition.start == 12
    assert share.shown() == [
        (0, 9, "ARCHIVED", 1), (10, 11, "ARCHIVED", 1), (12, 19, "AVAILABLE", 1)
    ]  # fmt: skip
