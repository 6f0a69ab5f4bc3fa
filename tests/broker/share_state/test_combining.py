"""Written states are combined with stored ones as if each record had its own entry."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimaran.broker.share_state import combining
from trimaran.broker.share_state.combining import combined
from trimaran.broker.share_state.states import DeliveryState, StateBatch

AVAILABLE, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)

batches = st.builds(
    StateBatch,
    st.integers(0, 25),
    st.integers(0, 25),
    st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    st.integers(0, 2),
)


def by_record(known, written, start_offset):
    """Returns the naive twin: the newest (count, state) of each record, then batches of equal neighbours."""
    states: dict[int, tuple[int, DeliveryState]] = {}
    for first, last, state, count in (*known, *written):
        for offset in range(first, last + 1):
            if offset >= start_offset:
                states[offset] = max(states.get(offset, (count, state)), (count, state))
    found: list[StateBatch] = []
    for offset, (count, state) in sorted(states.items()):
        if found and found[-1] == (found[-1].first_offset, offset - 1, state, count):
            found[-1] = found[-1]._replace(last_offset=offset)
        else:
            found.append(StateBatch(offset, offset, state, count))
    return tuple(found)


@given(st.lists(st.tuples(st.lists(batches, max_size=6), st.integers(-1, 26)), max_size=5))
@example([([StateBatch(5, 9, AVAILABLE, 1)], -1), ([StateBatch(7, 7, ACKNOWLEDGED, 1)], 6)])
def test_writes_combine_as_records_one_by_one(writes):
    known: tuple[StateBatch, ...] = ()
    expected: tuple[StateBatch, ...] = ()
    for written, start_offset in writes:
        known = combined(known, written, start_offset)
        expected = by_record(expected, written, start_offset)
        assert known == expected


def random_batches(random, most):
    found = []
    for _ in range(random.randint(0, most)):
        first = random.randint(0, 25)
        state = random.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED])
        found.append(StateBatch(first, first + random.randint(-1, 9), state, random.randint(0, 2)))
    return found


@pytest.mark.parametrize("singly_max", [0, 2, 16])
def test_large_writes_combine_as_records_one_by_one(monkeypatch, singly_max):
    monkeypatch.setattr(combining, "_LAID_SINGLY_MAX", singly_max)
    for seed in range(200):
        random = Random(seed)
        known = combined((), random_batches(random, 8), -1)
        assert known == by_record((), known, -1)
        written, start = random_batches(random, 6), random.randint(-1, 9)
        assert combined(known, written, start) == by_record(known, written, start), seed


def test_a_higher_count_wins_over_a_final_state():
    known = (StateBatch(0, 9, ARCHIVED, 1),)
    assert combined(known, [StateBatch(3, 12, AVAILABLE, 2)], 0) == (
        StateBatch(0, 2, ARCHIVED, 1),
        StateBatch(3, 12, AVAILABLE, 2),
    )


def test_with_equal_counts_the_later_state_wins():
    known = (StateBatch(0, 9, ACKNOWLEDGED, 1),)
    assert combined(known, [StateBatch(3, 9, AVAILABLE, 1)], 0) == known


def test_batch_across_the_start_is_cut():
    known = (StateBatch(0, 4, AVAILABLE, 1), StateBatch(7, 9, AVAILABLE, 1))
    assert [combined(known, (), start) for start in (4, 5, 8, 9, 10)] == [
        (StateBatch(4, 4, AVAILABLE, 1), StateBatch(7, 9, AVAILABLE, 1)),
        (StateBatch(7, 9, AVAILABLE, 1),),
        (StateBatch(8, 9, AVAILABLE, 1),),
        (StateBatch(9, 9, AVAILABLE, 1),),
        (),
    ]


def test_a_filled_gap_joins_both_neighbours():
    known = (StateBatch(0, 1, ACKNOWLEDGED, 1), StateBatch(4, 5, ACKNOWLEDGED, 1))
    assert combined(known, [StateBatch(2, 3, ACKNOWLEDGED, 1)], 0) == (
        StateBatch(0, 5, ACKNOWLEDGED, 1),
    )
