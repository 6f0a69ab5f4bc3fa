"""A search of the transaction index finds the same as a scan of all of its entries."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.disk.files import REAL_FILES
from trimaran.log.segments import transaction_index
from trimaran.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from trimaran.log.steps import at_once


def naive(entries, start, end):
    found = []
    for entry in entries:
        if entry.last_offset >= start:
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found, True
    return found, False


@st.composite
def histories(draw):
    """Draws aborts in the order of their markers, with the first open transaction after each."""
    open_now, entries = {}, []
    for offset, producer in enumerate(draw(st.lists(st.integers(0, 4), min_size=30, max_size=60))):
        if producer in open_now:
            first = open_now.pop(producer)
            stable = min(open_now.values(), default=offset + 1)
            entries.append(AbortedTransaction(producer, first, offset, stable))
        else:
            open_now[producer] = offset
    return entries


OFFSETS = st.integers(0, 30)
RANGES = st.lists(st.tuples(OFFSETS, OFFSETS), min_size=5)  # few examples must cover many entries


@given(histories(), RANGES, st.integers(0, 5), OFFSETS)
def test_search_matches_a_walk(tmp_path_factory, history, ranges, later, cut):
    path = tmp_path_factory.mktemp("index") / "0.txnindex"
    with mock.patch.multiple(transaction_index, GROUP_ENTRIES=3, BLOCK_ENTRIES=6):
        index = TransactionIndex(path, REAL_FILES)
        kept = history[: len(history) - later]
        for entry in kept:
            index.append(entry)
        assert_finds(index, kept, ranges)
        for entry in history[len(kept) :]:
            index.append(entry)
        assert_finds(index, history, ranges)
        index.truncate_to(cut)
        assert_finds(index, [batch for batch in history if batch.last_offset < cut], ranges)


def assert_finds(index, entries, ranges):
    for start, end in ranges:
        assert at_once(index.overlapping(start, end)) == naive(entries, start, end)
