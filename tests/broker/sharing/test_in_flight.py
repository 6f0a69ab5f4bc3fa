"""Records in flight as a structure: lookups, cuts and joins, the gap window, and the move of the start."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest

from trimaran.broker.sharing.in_flight import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    Batch,
    GapWindow,
    InFlight,
    RecordRun,
)

STATES = {
    "free": AVAILABLE, "held": ACQUIRED, "acked": ACKNOWLEDGED,
    "gone": ARCHIVED, "going": ARCHIVING,
}  # fmt: skip


def run(first, last, state="free", count=1):
    held = state == "held"
    return RecordRun(first, last, STATES[state], count, "m" if held else "", 30.0 if held else None)


def batch(*runs):
    """Returns a batch of (first, last, state, count)."""
    return Batch([run(*each) for each in runs], is_split=len(runs) > 1)


def flight(*batches, start=0, end=None, window=None):
    """Returns the batches in flight; `end` is their last offset unless it is given."""
    found = InFlight(start)
    for each in batches:
        found.add(batch(*each))
    if end is not None or found.batches:
        found.end = found.batches[-1].last if end is None else end
    found.window = None if window is None else GapWindow(*window)
    found.may_have_free = True
    return found


def shown(runs):
    names = {state: name for name, state in STATES.items()}
    return [(each.first, each.last, names[each.state], each.count) for each in runs]


def layout(found):
    """Returns the runs by batch, with whether it is split."""
    return [(shown(each.runs), each.is_split) for each in found.batches]


# -- one batch


def test_runs_in_range_overlap_the_range():
    held = batch((5, 6), (7, 7, "acked"), (8, 11))
    for first, last in combinations_with_replacement(range(3, 14), 2):
        wanted = [each for each in held.runs if first <= each.last and each.first <= last]
        assert held.runs_in(first, last) == wanted, (first, last)


def test_run_of_an_offset_is_found():
    held = batch((5, 6), (7, 7, "acked"), (8, 11))
    found = [held.index_of(offset) for offset in range(3, 14)]
    assert found == [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]
    assert [held.run_at(offset).first for offset in (5, 6, 7, 8)] == [5, 5, 7, 8]
    assert (held.first, held.last, held.size) == (5, 11, 7)


def test_batch_is_found_within_a_range():
    held = batch((5, 9))
    assert [bounds for bounds in product((4, 5, 6), (8, 9, 10)) if held.is_within(*bounds)] == [
        (4, 9), (4, 10), (5, 9), (5, 10)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "joins"),
    [(("free", 1), True), (("free", 2), False), (("gone", 1), False), (("acked", 1), False)],
)
def test_equal_neighbours_are_joined(second, joins):
    held = batch((0, 1), (2, 3, *second), (4, 5, "going", 3))
    held.merge()
    assert len(held.runs) == (2 if joins else 3)
    assert (held.first, held.last) == (0, 5)


def test_three_equal_neighbours_become_one():
    held = batch((0, 1), (2, 3), (4, 5))
    held.merge()
    assert shown(held.runs) == [(0, 5, "free", 1)]


@pytest.mark.parametrize("changing", [0, 1])
def test_locks_and_changes_keep_runs_apart(changing):
    held = batch((0, 1, "held"), (2, 3, "held"))
    held.merge()
    assert len(held.runs) == 2
    held = batch((0, 1, "acked"), (2, 3, "acked"))
    held.runs[changing].change = object()
    held.merge()
    assert len(held.runs) == 2


@pytest.mark.parametrize("state", STATES)
def test_changing_records_are_neither_free_nor_done(state):
    each = run(0, 1, state)
    assert (each.is_free, each.is_done) == (state == "free", state in ("acked", "gone"))
    each.change = object()
    assert (each.is_free, each.is_done) == (False, False)


# -- lookups


def test_batches_are_found_by_their_first_offset():
    found = flight([(0, 3)], [(10, 11)], [(4, 5)])
    assert [each.first for each in found.batches] == [0, 4, 10]
    floors = [found.floor(offset) for offset in (-1, 0, 3, 4, 9, 10, 99)]
    assert [each and each.first for each in floors] == [None, 0, 0, 4, 4, 10, 10]
    ranges = [(0, 3), (0, 4), (1, 9), (1, 10), (4, 4), (5, 9), (11, 20)]
    assert [[each.first for each in found.beginning_in(*bounds)] for bounds in ranges] == [
        [0], [0, 4], [4], [4, 10], [4], [], []
    ]  # fmt: skip


def test_size_counts_from_the_start():
    assert flight().size == 0
    assert flight([(0, 3)], start=2).size == 2
    assert flight([(0, 3)], [(6, 9)]).size == 10
    assert flight([(0, 3), (4, 5)], [(6, 9)]).run_count == 3


@pytest.mark.parametrize(("start", "done"), [(0, 7), (1, 6), (3, 6), (4, 6), (5, 5), (6, 4)])
def test_done_records_count_from_the_start(start, done):
    found = flight(
        [(0, 0, "acked"), (1, 1, "going"), (2, 2, "held"), (3, 3)],
        [(4, 5, "gone"), (6, 9, "acked")],
        start=start,
    )
    assert found.done_count == done


@pytest.mark.parametrize(
    ("bounds", "cut"),
    [((1, 3), False), ((1, 5), True), ((5, 9), False), ((4, 5), True), ((1, 4), False)],
)
def test_batch_beginning_before_start_is_cut(bounds, cut):
    assert InFlight(5).is_cut_by_start(*bounds) is cut


# -- the next offset to fetch


def test_fetch_begins_at_end_without_records():
    found = flight(start=7)
    assert (found.next_fetch_offset(), found.may_have_free) == (7, False)
    passed = flight([(0, 3, "held")], start=9, end=9)
    assert (passed.next_fetch_offset(), passed.may_have_free) == (9, False)


def test_first_free_record_is_fetched():
    found = flight([(0, 3, "held")], [(4, 4, "acked"), (5, 6), (7, 7)])
    assert (found.next_fetch_offset(), found.may_have_free) == (5, True)
    found.may_have_free = False
    assert found.next_fetch_offset() == 8


def test_search_without_free_records_is_not_repeated():
    found = flight([(0, 3, "held")], [(4, 9, "going")])
    assert (found.next_fetch_offset(), found.may_have_free) == (10, False)


@pytest.mark.parametrize(
    ("window", "offset"),
    [
        ((4, 19), 4),  # before the next batch
        ((6, 19), 8),  # a batch begins there
        ((7, 19), 8),  # within a batch
        ((8, 19), 8),
        ((12, 19), 12),
        ((0, 19), 4),  # within the first batch
        ((13, 19), 20),  # behind the last batch: nothing is left to examine
        ((4, 18), 20),  # the window has ended
    ],
)
def test_gaps_are_fetched_in_order(window, offset):
    held = [(0, 3, "held")], [(6, 7, "held")], [(13, 19, "held")]
    assert flight(*held, window=window).next_fetch_offset() == offset


def test_free_record_before_the_gap_is_fetched():
    found = flight([(0, 3)], [(8, 9)], window=(4, 9))
    assert found.next_fetch_offset() == 0
    assert flight([(0, 3, "held")], [(4, 9)], window=(4, 9)).next_fetch_offset() == 4


def test_window_applies_up_to_its_end():
    assert flight([(0, 9)], window=(3, 9)).gap == 3
    assert flight([(0, 9)], window=(3, 8)).gap is None
    assert flight([(0, 9)], window=(3, 10)).gap is None
    assert flight([(0, 9)]).gap is None


@pytest.mark.parametrize(
    ("offset", "window"), [(5, (5, 9)), (9, (9, 9)), (10, None)], ids=["in", "at", "behind"]
)
def test_window_begins_after_the_examined_records(offset, window):
    found = flight([(0, 9)], window=(3, 9))
    found.forget_window_before(offset)
    assert found.window == window
    found = flight([(0, 9)], end=12, window=(3, 9))
    found.forget_window_before(offset)
    assert found.window is None


# -- cuts


@pytest.mark.parametrize(
    ("bounds", "inside", "layouts"),
    [
        ((4, 6), [(4, 6)], [(2, 3), (4, 6), (7, 9)]),
        ((2, 9), [(2, 9)], [(2, 9)]),
        ((0, 12), [(2, 9)], [(2, 9)]),
        ((9, 9), [(9, 9)], [(2, 8), (9, 9)]),
        ((0, 2), [(2, 2)], [(2, 2), (3, 9)]),
        ((0, 1), [], [(2, 9)]),
        ((10, 12), [], [(2, 9)]),
    ],
)
def test_runs_are_cut_at_the_bounds(bounds, inside, layouts):
    found = flight([(2, 9)])
    each = found.batches[0]
    assert [(r.first, r.last) for r in found.runs_between(each, *bounds)] == inside
    assert [(r.first, r.last) for r in each.runs] == layouts
    assert each.is_split is (len(layouts) > 1)


def test_cut_keeps_lock_and_change_of_both_parts():
    found = InFlight(0)
    whole = run(0, 9, "held", 2)
    found.add(Batch([whole]))
    found.lock(whole, 30.0)
    whole.change, whole.before = change, before = object(), (ACQUIRED, "m")
    _, rest = found.cut_run(found.batches[0], whole, [4])
    assert shown(found.batches[0].runs) == [(0, 3, "held", 2), (4, 9, "held", 2)]
    assert (rest.member, rest.deadline, rest.change, rest.before) == ("m", 30.0, change, before)
    found.unlock(whole)
    assert (whole.deadline, found.locks.pop_due(30.0), found.locks.earliest()) == (None, rest, None)


def test_cut_of_an_ended_lock_sets_none():
    found = InFlight(0)
    whole = run(0, 9, "held")
    found.add(Batch([whole]))
    assert [r.deadline for r in found.cut_run(found.batches[0], whole, [4])] == [30.0, 30.0]
    assert found.locks.earliest() is None


def test_run_is_cut_in_several_places():
    found = flight([(0, 1), (2, 9), (10, 11)])
    each = found.batches[0]
    each.is_split = False
    assert found.cut_run(each, each.runs[1], []) == (each.runs[1],)
    assert not each.is_split
    parts = found.cut_run(each, each.runs[1], [4, 5])
    assert shown(parts) == [(2, 3, "free", 1), (4, 4, "free", 1), (5, 9, "free", 1)]
    assert [r.first for r in each.runs] == [0, 2, 4, 5, 10]
    assert each.is_split


@pytest.mark.parametrize(("size", "last"), [(1, 2), (7, 8), (8, 9), (9, 9)])
def test_run_within_size_is_not_split(size, last):
    found = flight([(0, 1, "acked"), (2, 9)])
    each = found.batches[0].runs[1]
    assert found.split_run(found.batches[0], each, size) is each
    assert (each.first, each.last, found.batches[0].last) == (2, last, 9)


def test_records_in_the_state_are_archived():
    found = flight([(0, 3, "held")], [(4, 5), (6, 7, "held"), (8, 9)], [(10, 12)], [(13, 14)])
    for each in found.batches[0].runs:
        found.lock(each, 30.0)
    found.archive(2, 11, AVAILABLE)
    assert layout(found) == [
        ([(0, 3, "held", 1)], False),
        ([(4, 5, "gone", 1), (6, 7, "held", 1), (8, 9, "gone", 1)], True),
        ([(10, 11, "gone", 1), (12, 12, "free", 1)], True),
        ([(13, 14, "free", 1)], False),
    ]
    found.archive_each([(0, 1), (6, 6), (7, 7)], ACQUIRED)
    assert layout(found)[:2] == [
        ([(0, 1, "gone", 1), (2, 3, "held", 1)], True),
        ([(4, 9, "gone", 1)], True),
    ]
    assert found.batches[0].runs[0].member == ""
    assert (found.locks.pop_due(30.0), found.locks.earliest()) == (found.batches[0].runs[1], None)


def test_archived_run_is_not_restored():
    found = flight([(0, 3)])
    each = found.batches[0].runs[0]
    each.change, each.before = object(), (ACQUIRED, "m")
    found.archive(0, 3, AVAILABLE)
    assert (each.state, each.before, each.change is None) == (ARCHIVED, None, False)


# -- the start


@pytest.mark.parametrize(
    ("batches", "start", "kept", "end"),
    [
        ([[(0, 3)]], 0, [0], 3),
        ([[(0, 3, "acked")]], 4, [], 4),
        ([[(0, 3, "acked"), (4, 5, "gone")], [(6, 9)]], 6, [6], 9),
        ([[(0, 3, "acked"), (4, 5)], [(6, 9)]], 4, [0, 6], 9),
        ([[(0, 3, "acked")], [(4, 5, "acked")], [(8, 9)]], 8, [8], 9),
        ([[(0, 3, "going")], [(4, 5, "acked")]], 0, [0, 4], 5),
        ([[(0, 3, "acked")], [(4, 5, "acked"), (6, 7)], [(8, 9)]], 6, [4, 8], 9),
    ],
)
def test_start_moves_over_done_records(batches, start, kept, end):
    found = flight(*batches)
    found.advance()
    assert (found.start, [each.first for each in found.batches], found.end) == (start, kept, end)


def test_start_never_moves_back():
    found = flight([(0, 3, "acked")], [(4, 5)], start=2)
    found.advance()
    assert (found.start, [each.first for each in found.batches]) == (4, [4])
    ahead = flight([(0, 5, "acked"), (6, 9, "held")], start=3)
    ahead.advance()
    assert ahead.start == 6
    emptied = flight([(0, 3, "acked")], start=2, end=9)
    emptied.advance()
    assert (emptied.start, emptied.end) == (4, 4)


def test_held_record_before_start_keeps_the_start():
    found = flight([(0, 3, "held")], [(4, 5, "acked")], start=4)
    found.advance()
    assert (found.start, len(found.batches)) == (4, 2)


@pytest.mark.parametrize(
    ("window", "start", "kept"),
    [((4, 9), 4, [6, 8]), ((2, 9), 4, [6, 8]), ((8, 9), 8, [8]), ((4, 8), 8, [8])],
)
def test_start_stays_before_a_gap(window, start, kept):
    found = flight([(0, 3, "acked")], [(6, 7, "acked")], [(8, 9)], window=window)
    found.advance()
    assert (found.start, [each.first for each in found.batches]) == (start, kept)


@pytest.mark.parametrize(
    ("window", "moved"),
    [((0, 9), (4, 9)), ((4, 9), (4, 9)), ((6, 9), None), ((5, 9), (5, 9)), ((7, 9), None)],
)
def test_window_skips_known_records(window, moved):
    found = flight([(0, 1, "held")], [(2, 3, "held")], [(6, 7, "held")], [(8, 9, "held")],
                   window=window)  # fmt: skip
    found.advance()
    assert found.window == moved


def test_window_without_records_is_kept():
    found = flight(start=3, end=9, window=(3, 9))
    found.advance()
    assert (found.window, found.start) == ((3, 9), 3)


def test_window_behind_known_records_stays():
    found = flight([(0, 1, "held")], [(8, 9, "held")], window=(5, 9))
    found.advance()
    assert found.window == (5, 9)


def test_log_start_moves_the_start():
    found = flight([(0, 3), (4, 5, "held")], [(6, 9)], window=(10, 9))
    found.begin_at(0)
    assert (found.start, found.run_count) == (0, 3)
    found.begin_at(7)
    assert (found.start, found.end) == (7, 9)
    assert layout(found) == [
        ([(0, 3, "gone", 1), (4, 5, "held", 1)], True),
        ([(6, 6, "gone", 1), (7, 9, "free", 1)], True),
    ]
    assert found.window == (10, 9)
    found.begin_at(12)
    assert (found.start, found.end, found.window) == (12, 12, (12, 9))
    empty = flight(start=3)
    empty.begin_at(5)
    assert (empty.start, empty.end) == (5, 5)


@pytest.mark.parametrize(("log_start", "begin"), [(4, 5), (5, 5), (6, 6)])
def test_log_start_moves_the_window(log_start, begin):
    found = flight([(0, 4)], [(8, 9)], window=(5, 9))
    found.begin_at(log_start)
    assert found.window == (begin, 9)


def test_runs_are_listed_with_their_batches():
    found = flight([(0, 1), (2, 3)], [(4, 5)])
    assert [(each.first, part.first) for each, part in found.runs()] == [(0, 0), (0, 2), (4, 4)]
