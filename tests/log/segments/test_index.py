"""Index files: loading an index takes a few reads regardless of its size, and damage in its middle causes no wrong
result.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from itertools import accumulate
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import fill, open_log
from trimaran.log.disk.files import Files
from trimaran.log.segments.index import BLOCK_ENTRIES, IndexDamaged, OffsetIndex, TimeIndex

ENTRIES = 262_144  # enough entries for a segment of 1 GiB


class CountingFiles(Files):
    def __init__(self):
        super().__init__()
        self.reads = self.bytes_read = 0

    def pread(self, file, size, position):
        self.reads += 1
        self.bytes_read += size
        return super().pread(file, size, position)


def written(path, layout, entries, zeros=0):
    path.write_bytes(b"".join(layout.pack(*entry) for entry in entries) + bytes(zeros))
    return path


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize("zeros", [0, 8 << 20])
def test_loading_and_looking_up_read_a_few_entries(tmp_path, kind, zeros):
    entries = [(10 * number, 4096 * number) for number in range(1, ENTRIES)]
    path = written(tmp_path / "index", kind.layout, entries, zeros)
    files = CountingFiles()
    index = kind(path, files, created=False)
    assert (index.entries, index.last) == (len(entries), entries[-1])
    assert files.reads <= 24
    assert index.floor(12_345) == (12_340, 1234 * 4096)
    assert files.reads <= 24 + 2  # at most two blocks
    assert files.bytes_read <= (24 + 2 * BLOCK_ENTRIES) * kind.layout.size


def test_nonlinear_entries_are_found_in_logarithmic_reads(tmp_path):
    entries = [(1, 1)] + [((1 << 30) + number, number) for number in range(2, ENTRIES)]
    path = written(tmp_path / "index", OffsetIndex.layout, entries)
    files = CountingFiles()
    index = OffsetIndex(path, files, created=False)
    assert index.entries == len(entries)
    before = files.reads
    assert index.floor((1 << 30) + 777) == ((1 << 30) + 777, 777)
    assert files.reads - before <= 2 * (ENTRIES // BLOCK_ENTRIES).bit_length()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([1, 2, 500, 1 << 20]), st.sampled_from([1, 4096, 1 << 20])),
        max_size=40,
    ),
    unwritten=st.integers(0, 5),
    block=st.integers(1, 7),
    keys=st.lists(st.integers(-1, 1 << 25), max_size=5),
)
def test_floor_and_ceiling_equal_those_of_a_list(tmp_path_factory, steps, unwritten, block, keys):
    firsts, seconds = [list(accumulate(column)) for column in zip(*steps, strict=True)] or [[], []]
    entries = list(zip(firsts, seconds, strict=True))
    cut = max(0, len(entries) - unwritten)
    path = written(tmp_path_factory.getbasetemp() / "index", OffsetIndex.layout, entries[:cut])
    index = OffsetIndex(path, Files(), created=False)
    for entry in entries[cut:]:
        index.append(*entry)
    with mock.patch("trimaran.log.segments.index.BLOCK_ENTRIES", block):
        for field, column in enumerate((firsts, seconds)):
            for key in [*keys, *column, *(value - 1 for value in column)]:
                slot = bisect_right(column, key) - 1
                assert index.floor(key, field) == (entries[slot] if slot >= 0 else None)
                slot = bisect_left(column, key)
                assert index.ceiling(key, field) == slot
                assert index.ceiling_entry(key, field) == next(iter(entries[slot:]), None)


@given(
    steps=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 1 << 12)), max_size=40),
    zeros=st.integers(0, 200),
)
def test_zeros_at_the_end_are_no_entries(tmp_path_factory, steps, zeros):
    entries, key, value = [], 0, 0
    for more, further in steps:
        key, value = key + more, value + further
        entries.append((key, value))
    path = written(tmp_path_factory.getbasetemp() / "index", OffsetIndex.layout, entries, zeros)
    index = OffsetIndex(path, Files(), created=False)
    assert [index.entry(slot) for slot in range(index.entries)] == entries
    assert index.last == (entries[-1] if entries else None)


@pytest.mark.parametrize(
    "entries",
    [[(-1, 5)], [(3, -5)], [(5, 50), (4, 60)], [(5, 50), (6, 50)]],
)
def test_impossible_last_entry_is_damage(tmp_path, entries):
    path = written(tmp_path / "index", OffsetIndex.layout, entries)
    with pytest.raises(IndexDamaged):
        _ = OffsetIndex(path, Files(), created=False).entries


def test_entries_after_zeros_never_reappear(tmp_path):
    path = written(tmp_path / "index", OffsetIndex.layout, [(5, 50), (0, 0), (6, 51)])
    index = OffsetIndex(path, Files(), created=False)
    assert index.entries == 1
    index.append(6, 60)
    index.write_pending()
    assert path.read_bytes() == struct.pack(">iiii", 5, 50, 6, 60)


def test_entries_set_aside_stay_until_next_write(tmp_path):
    path = written(tmp_path / "index", OffsetIndex.layout, [(1, 10), (2, 20), (3, 30)])
    before = path.read_bytes()
    index = OffsetIndex(path, Files(), created=False)
    index.set_aside(1)
    assert (index.entries, index.last, path.read_bytes()) == (1, (1, 10), before)
    index.append(7, 70)
    index.write_pending()
    assert path.read_bytes() == struct.pack(">iiii", 1, 10, 7, 70)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_damage_in_middle_causes_no_error(tmp_path, suffix):
    log = fill(open_log(tmp_path / "t-0", clean=True), 24)
    log.close()
    expected = found_in(log)
    path = tmp_path / "t-0" / f"{0:020}.{suffix}"
    intact = path.read_bytes()
    size = 8 if suffix == "index" else 12
    entries = len(intact) // size
    assert entries > 5
    for entry in range(1, entries - 1):
        for bit in (0, 7, 31, 8 * size - 3):
            damaged = bytearray(intact)
            damaged[entry * size + bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            assert found_in(open_log(tmp_path / "t-0", clean=True)) == expected
            path.write_bytes(intact)


def found_in(log):
    """Returns the batch of each offset, and the result for each timestamp."""
    end = log.log_end_offset
    batches = [log.read_bytes(offset, 1, upto_offset=end) for offset in range(end)]
    return batches, [log.offset_for_timestamp(timestamp) for timestamp in range(990, 1010 + end)]
