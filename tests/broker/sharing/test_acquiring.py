"""Acquisition of new records and of free ones, in both modes, within the limits."""

from __future__ import annotations

import pytest

from tests.broker.sharing.driver import LOCK_SECONDS, Driver, states
from trimaran.broker.sharing.acknowledging import NOT_OWNER_OF_BATCH, NOT_OWNER_OF_OFFSET
from trimaran.wire.errors import KafkaError


def test_new_records_are_acquired_by_batches():
    share = Driver()
    assert share.acquire((0, 9), (10, 19), (20, 29), most=11) == [(0, 19, 1)]
    assert share.shown() == [(0, 19, "ACQUIRED", 1)]
    assert (share.partition.start, share.partition.end, share.partition.size) == (0, 19, 20)
    assert share.partition.next_fetch_offset() == 20


@pytest.mark.parametrize(("most", "last"), [(9, 9), (10, 9), (11, 19), (20, 19)])
def test_batch_with_the_last_wanted_record_is_whole(most, last):
    assert Driver().acquire((0, 9), (10, 19), most=most) == [(0, last, 1)]


@pytest.mark.parametrize(("most", "last"), [(1, 0), (9, 8), (10, 9), (11, 10), (30, 19)])
def test_record_limit_is_exact(most, last):
    share = Driver()
    assert share.acquire((0, 9), (10, 19), most=most, exact=True) == [(0, last, 1)]
    if last < 19:
        assert share.acquire((0, 9), (10, 19), at=last + 1, member="n", most=1, exact=True) == [
            (last + 1, last + 1, 1)
        ]


def test_rest_of_limited_batch_has_no_delivery():
    share = Driver()
    share.acquire((0, 9), most=4, exact=True)
    assert share.shown() == [(0, 3, "ACQUIRED", 1), (4, 9, "AVAILABLE", 0)]
    assert share.partition.next_fetch_offset() == 4
    assert share.acquire((0, 9), at=4, member="n") == [(4, 9, 1)]


def test_large_acquisition_is_divided_between_batches():
    share = Driver()
    bounds = [(0, 9), (10, 19), (20, 29), (30, 34)]
    assert share.acquire(*bounds, size=20) == [(0, 19, 1), (20, 34, 1)]
    assert Driver().acquire(*bounds, size=21) == [(0, 29, 1), (30, 34, 1)]
    assert Driver().acquire(*bounds, size=35) == [(0, 34, 1)]
    assert Driver().acquire(*bounds, size=20, exact=True) == [(0, 34, 1)]


def test_nothing_is_acquired_without_records_or_demand():
    share = Driver(start=5)
    assert share.acquire((0, 9), most=0) == []
    assert share.acquire(at=5) == []
    assert share.acquire((0, 5)) == [(5, 5, 1)]
    assert share.acquire((0, 4)) == []
    assert share.acquire((6, 9), at=6) == [(6, 9, 1)]


def test_start_moves_to_the_first_record():
    share = Driver(start=5)
    assert share.acquire((8, 9)) == [(8, 9, 1)]
    assert (share.partition.start, share.partition.end) == (8, 9)


@pytest.mark.parametrize(("locks", "can"), [(9, False), (10, False), (11, True)])
def test_record_locks_limit_new_records(locks, can):
    share = Driver(record_locks_max=locks)
    share.acquire((0, 9))
    assert share.partition.can_acquire(share.rules) is can
    assert share.acquire((10, 19), member="n") == ([(10, 19, 1)] if can else [])


def test_free_records_are_acquired_at_the_limit():
    share = Driver(record_locks_max=10)
    share.acquire((0, 9))
    share.acknowledge((2, 4, [2]))
    assert share.partition.can_acquire(share.rules)
    assert share.acquire((0, 9), (10, 19), at=2, member="n") == [(2, 4, 2)]
    assert not share.partition.can_acquire(share.rules)


def test_held_records_are_skipped():
    share = Driver()
    share.acquire((0, 9))
    share.acquire((10, 19), member="n")
    share.release("m")
    assert share.partition.next_fetch_offset() == 0
    assert share.acquire((0, 9), (10, 19), (20, 24), member="o") == [(0, 9, 2), (20, 24, 1)]


def test_first_record_read_may_be_within_a_batch():
    share = Driver()
    share.acquire((0, 29))
    share.release()
    assert share.acquire((10, 19), at=10) == [(10, 19, 2)]
    assert share.shown() == [
        (0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 2), (20, 29, "AVAILABLE", 1)
    ]  # fmt: skip
    assert share.partition.next_fetch_offset() == 0


@pytest.mark.parametrize(
    ("limit", "count", "taken"),
    [(5, 1, 16), (5, 2, 16), (5, 3, 8), (5, 4, 1), (10, 5, 8), (10, 6, 4), (10, 8, 1), (2, 1, 16)],
)
def test_delivery_count_limits_the_acquired_records(limit, count, taken):
    share = Driver(batches=states((0, 15, "AVAILABLE", count)), deliveries_max=limit)
    assert share.acquire((0, 15), (16, 30)) == (
        [(0, taken - 1, count + 1)] if taken < 16 else [(0, 15, count + 1), (16, 30, 1)]
    )


def test_last_delivery_has_only_one_record():
    share = Driver(batches=states((0, 3, "AVAILABLE", 1), (4, 7, "AVAILABLE", 4)))
    assert share.acquire((0, 7), (8, 9)) == [(0, 3, 2)]
    assert share.acquire((0, 7), (8, 9), at=4) == [(4, 4, 5)]
    assert share.acquire((0, 7), (8, 9), at=5) == [(5, 5, 5)]


def test_last_delivery_follows_others_of_its_batch():
    share = Driver(deliveries_max=4)
    share.acquire((0, 5))
    for _ in range(2):
        share.acknowledge((2, 5, [2]))
        share.acquire((0, 5), at=2)
    share.acknowledge((0, 1, [2]), *[(2, 3, [2])])
    assert share.acquire((0, 5)) == [(0, 1, 2)]
    assert share.acquire((0, 5), at=2) == [(2, 2, 4)]


def test_records_of_stored_gaps_are_new():
    share = Driver(
        start=10,
        batches=states((15, 19, "ACKNOWLEDGED", 1), (25, 29, "AVAILABLE", 2)),
    )
    assert share.partition.next_fetch_offset() == 10
    assert share.acquire((0, 39), at=10) == [
        (10, 14, 1), (20, 24, 1), (25, 29, 3), (30, 39, 1)
    ]  # fmt: skip
    assert share.acquire((40, 49), at=40) == [(40, 49, 1)]


def test_stored_gap_is_delivered_in_pieces():
    share = Driver(start=0, batches=states((20, 29, "ACKNOWLEDGED", 1)))
    assert share.acquire((0, 9), (10, 29), most=5) == [(0, 9, 1)]
    assert share.partition.next_fetch_offset() == 10
    assert share.acquire((10, 29), most=50) == [(10, 19, 1)]
    assert share.partition.next_fetch_offset() == 30


def test_compacted_records_are_archived():
    share = Driver()
    share.acquire((0, 9))
    share.acquire((10, 19), member="n")
    share.release("m")
    assert share.acquire((5, 9), at=0) == [(5, 9, 2)]
    assert share.partition.start == 5


def test_aborted_records_are_archived():
    share = Driver()
    assert share.acquire((0, 9), (10, 19), (20, 29), aborted=[(10, 19)]) == [
        (0, 9, 1), (20, 29, 1)
    ]  # fmt: skip
    assert share.shown() == [
        (0, 9, "ACQUIRED", 1), (10, 19, "ARCHIVED", 1), (20, 29, "ACQUIRED", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("index", [0, 1, 2])
def test_aborted_batch_leaves_the_others(index):
    bounds = [(0, 9), (10, 19), (20, 29)]
    left = [(*each, 1) for each in bounds if each != bounds[index]]
    assert Driver().acquire(*bounds, size=10, aborted=[bounds[index]]) == left


def test_aborted_records_free_their_locks():
    share = Driver(record_locks_max=10)
    assert share.acquire((0, 9), aborted=[(0, 9)]) == []
    assert (share.partition.start, share.partition.size) == (10, 0)
    assert share.acquire((10, 19), at=10) == [(10, 19, 1)]


def test_log_start_skips_records():
    share = Driver()
    share.acquire((0, 9))
    share.release()
    share.acquire((10, 19), at=10, member="n")
    share.partition.begin_at(15)
    assert (share.partition.start, share.partition.end) == (15, 19)
    assert share.shown() == [(0, 9, "ARCHIVED", 1), (10, 19, "ACQUIRED", 1)]
    assert share.acknowledge((10, 19, [1]), member="n") == states((15, 19, "ACKNOWLEDGED", 1))
    assert share.pass_time(LOCK_SECONDS) == states((10, 14, "ARCHIVED", 1))
    assert (share.partition.start, share.partition.end, share.shown()) == (20, 20, [])


def test_log_start_skips_everything():
    share = Driver()
    share.partition.begin_at(7)
    assert (share.partition.start, share.partition.end) == (7, 7)
    share.acquire((7, 9))
    share.partition.begin_at(30)
    share.partition.begin_at(20)
    assert (share.partition.start, share.partition.end) == (30, 30)
    assert share.partition.next_fetch_offset() == 30
    assert share.acquire((30, 39)) == [(30, 39, 1)]


def test_records_before_the_start_are_not_new():
    share = Driver(batches=states((0, 4, "AVAILABLE", 1), (20, 29, "AVAILABLE", 1)))
    share.acquire((0, 4))
    share.partition.begin_at(10)
    assert share.acquire((0, 7), at=10) == []


def test_compacted_start_of_gap_is_skipped():
    share = Driver(batches=states((20, 29, "AVAILABLE", 1)))
    assert share.acquire((5, 9), at=0) == [(5, 9, 1)]
    assert share.partition.next_fetch_offset() == 10


@pytest.mark.parametrize(("most", "last"), [(3, 12), (4, 13), (5, 19), (6, 19)])
def test_missing_wanted_record_is_skipped(most, last):
    share = Driver(start=10)
    assert share.acquire((10, 11), (14, 19), most=most) == [(10, last, 1)]


# -- batches and the states of their records


def refusal(share):
    """Returns the message of a refusal, which differs for a batch and for single offsets."""
    with pytest.raises(KafkaError) as refused:
        share.decide((0, 3, [1]), member="o")
    return refused.value.message


@pytest.mark.parametrize(
    ("most", "taken", "words"),
    [(3, (0, 2, 2), NOT_OWNER_OF_OFFSET), (4, (0, 3, 2), NOT_OWNER_OF_BATCH)],
)
def test_exactly_fitting_batch_stays_whole(most, taken, words):
    share = Driver(batches=states((0, 3, "AVAILABLE", 1)))
    assert share.acquire((0, 3), most=most, exact=True) == [taken]
    assert refusal(share) == words


def test_record_delivered_often_is_tracked_by_offset():
    share = Driver(batches=states((0, 0, "AVAILABLE", 3)))
    assert share.acquire((0, 0), (1, 3)) == [(0, 0, 4)]
    share.acquire((1, 3), at=1)
    assert refusal(share) == NOT_OWNER_OF_OFFSET


def with_counts(*, at, low, high):
    """Returns records 0-15 of one batch, of at most ten deliveries: `low` before `at`, `high` from there on."""
    share = Driver(batches=states((0, 15, "AVAILABLE", low)), deliveries_max=10)
    for count in range(low, high):
        assert share.acquire((at, 15), at=at)[0][2] == count + 1
        share.release()
    return share


@pytest.mark.parametrize(
    ("at", "most", "taken"),
    [
        (6, 500, [(0, 5, 5), (6, 7, 6)]),
        (7, 500, [(0, 6, 5), (7, 7, 6)]),
        (8, 500, [(0, 7, 5), (8, 15, 6)]),  # already beyond the limit
        (9, 500, [(0, 8, 5), (9, 15, 6)]),
        (6, 7, [(0, 5, 5), (6, 6, 6)]),
        (8, 10, [(0, 7, 5), (8, 9, 6)]),
    ],
)
def test_often_delivered_records_end_an_acquisition(at, most, taken):
    share = with_counts(at=at, low=4, high=5)
    assert share.acquire((0, 15), most=most, exact=most < 500) == taken


def test_first_often_delivered_record_limits_the_acquisition():
    share = Driver(batches=states((0, 15, "AVAILABLE", 5)), deliveries_max=10)
    assert share.acquire((4, 15), at=4) == [(4, 11, 6)]
    share.release()
    assert share.acquire((0, 15)) == [(0, 3, 6), (4, 7, 7)]


def test_only_fetched_records_limit_the_acquisition():
    share = Driver(batches=states((0, 15, "AVAILABLE", 4)), deliveries_max=10)
    share.acquire((0, 5))
    share.release()
    assert share.acquire((6, 15), (16, 17), at=6) == [(6, 15, 5), (16, 17, 1)]


def test_held_records_do_not_limit_others():
    share = with_counts(at=8, low=4, high=5)
    share.acquire((8, 15), at=8, member="n")
    assert share.acquire((0, 15), (16, 17)) == [(0, 7, 5), (16, 17, 1)]


def test_acquired_record_splits_its_run():
    share = Driver(batches=states((0, 7, "AVAILABLE", 2)), deliveries_max=4)
    assert share.acquire((0, 0), at=0) == [(0, 0, 3)]
    assert share.shown() == [(0, 0, "ACQUIRED", 3), (1, 7, "AVAILABLE", 2)]


def test_record_limit_spans_several_runs():
    share = Driver()
    share.acquire((0, 9))
    share.acknowledge((0, 3, [2]), (6, 9, [2]))
    assert share.acquire((0, 9), at=0, most=5, exact=True) == [(0, 3, 2), (6, 6, 2)]
