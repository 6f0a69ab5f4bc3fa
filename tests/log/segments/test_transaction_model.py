"""The index of aborted transactions behaves as a list; it has more entries than fit a group or a read, and is truncated
and reopened.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.disk.files import Files
from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.transaction_index import (
    BLOCK_ENTRIES,
    ENTRY_BYTES,
    GROUP_ENTRIES,
    AbortedTransaction,
    TransactionIndex,
)
from trimaran.log.steps import at_once


def aborted(count, stuck_from):
    """Returns overlapping transactions; the last stable offset stays the same from number `stuck_from` on."""
    return [
        AbortedTransaction(
            producer_id=number % 3,
            first_offset=max(0, 10 * number - 25),
            last_offset=10 * number + 5,
            last_stable_offset=10 * min(number, stuck_from) + 6,
        )
        for number in range(count)
    ]


def overlapping(entries, start, end):
    """Returns the entries that a reader finds by a scan."""
    found = []
    for entry in entries:
        if entry.last_offset < start:
            continue
        if entry.first_offset < end:
            found.append(entry)
        if entry.last_stable_offset >= end:
            return found, True
    return found, False


COUNTS = st.sampled_from(
    [0, 1, GROUP_ENTRIES - 1, GROUP_ENTRIES, GROUP_ENTRIES + 1, BLOCK_ENTRIES, BLOCK_ENTRIES + 70]
)


@given(
    count=COUNTS,
    stuck_from=st.sampled_from([0, 3, 100, 1000]),
    keep=st.integers(0, 600),
    looks=st.lists(st.tuples(st.integers(0, 6000), st.integers(1, 400)), max_size=6),
    first=st.booleans(),
)
def test_index_is_the_list_of_its_entries(tmp_path_factory, count, stuck_from, keep, looks, first):
    path = tmp_path_factory.getbasetemp() / "model.txnindex"
    path.unlink(missing_ok=True)
    index, entries = TransactionIndex(path, Files()), aborted(count, stuck_from)

    def check(expected):
        for batch in (index, TransactionIndex(path, Files())):
            assert batch.entries() == expected
            assert batch.last_offset == (expected[-1].last_offset if expected else -1)
            assert batch.exists is bool(expected)
            assert batch.is_empty is not bool(expected)
            for start, more in looks:
                found = at_once(batch.overlapping(start, start + more))
                assert found == overlapping(expected, start, start + more)

    if first:
        check([])  # searched before any entry is appended
    for number, entry in enumerate(entries):
        assert index.append(entry) is (number == 0)
        assert index.append(entry) is False  # a replay appends the same entry again
    check(entries)
    assert index.changed is bool(entries)
    index.truncate_to(10 * keep + 5)
    kept = [entry for entry in entries if entry.last_offset < 10 * keep + 5]
    check(kept)
    for entry in entries[len(kept) :]:
        index.append(entry)
    check(entries)


@pytest.mark.parametrize("rest", [1, ENTRY_BYTES - 1])
def test_torn_entry_is_damage_until_cut(tmp_path, rest):
    path = tmp_path / "index"
    index = TransactionIndex(path, Files())
    entries = aborted(3, 1000)
    for entry in entries:
        index.append(entry)
    path.write_bytes(path.read_bytes() + bytes(rest))
    opened = TransactionIndex(path, Files())
    with pytest.raises(IndexDamaged, match="no whole number"):
        opened.entries()
    opened.truncate_to(1 << 40)
    assert opened.entries() == entries
    assert path.stat().st_size == 3 * ENTRY_BYTES


FORM = struct.Struct(">hqqqq")
GOOD = [(0, 1, 0, 5, 6), (0, 1, 7, 15, 16)]


@pytest.mark.parametrize(
    ("bad", "sound"),
    [
        ((1, 1, 17, 25, 26), 2),  # an entry of another version
        ((0, 1, -1, 25, 26), 2),
        ((0, 1, 25, 25, 26), 2),
        ((0, 1, 17, 15, 26), 2),  # ends at the same offset as the previous entry
        ((0, 1, 17, 14, 26), 2),
    ],
)
def test_entries_from_a_damaged_one_on_are_dropped(tmp_path, bad, sound):
    path = tmp_path / "index"
    later = (0, 1, 30, 35, 36)
    path.write_bytes(b"".join(FORM.pack(*item) for item in (*GOOD, bad, later)))
    index = TransactionIndex(path, Files())
    with pytest.raises(IndexDamaged, match="no entry of version 0 after 15"):
        index.entries()
    assert not index.lacks_entries
    index.keep_sound()
    assert index.lacks_entries
    assert index.changed
    assert [tuple(entry) for entry in index.entries()] == [expected[1:] for expected in GOOD]
    assert path.stat().st_size == sound * ENTRY_BYTES


def test_index_without_file_is_empty_and_creates_none(tmp_path):
    index = TransactionIndex(tmp_path / "index", Files())
    index.truncate_to(5)
    index.keep_sound()
    assert (index.entries(), index.exists, index.changed) == ([], False, False)
    assert not (tmp_path / "index").exists()
