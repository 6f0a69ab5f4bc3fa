"""Searches in a segment by its indexes, including damaged ones; the twin examines all batches."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.helpers import batch_bytes
from trimaran.log.disk.files import Files
from trimaran.log.inspection.reader import SegmentFile, scan_batches
from trimaran.log.inspection.segment_lookup import SegmentLookup
from trimaran.log.segments.index import OffsetIndex, TimeIndex

BASE = 1000


class Counted(Files):
    """Counts the bytes that are read."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def pread(self, file, size, position):
        found = super().pread(file, size, position)
        self.bytes += len(found)
        return found

    def read_bytes(self, path):
        raise AssertionError(f"{path} is read as a whole")


def write_segment(folder, times, *, each=3, gap=1, interval=2):
    """Writes a segment with a batch for each time, and indexes that contain every `interval`-th batch."""
    path = folder / f"{BASE:020d}.log"
    data, offsets, stamps = b"", b"", b""
    offset, latest, latest_end = BASE, -1, 0
    for number, time in enumerate(times):
        batch = batch_bytes(each, timestamp_ms=time, step_ms=-1, base_offset=offset)
        end = offset + each - 1
        if time > latest:
            latest, latest_end = time, end
        if number and number % interval == 0:
            offsets += OffsetIndex.layout.pack(end - BASE, len(data))
            if not stamps or TimeIndex.layout.unpack(stamps[-12:])[0] < latest:
                stamps += TimeIndex.layout.pack(latest, latest_end - BASE)
        data += batch
        offset = end + 1 + gap
    path.write_bytes(data)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(stamps)
    return SegmentFile(str(path), BASE, len(data))


def check_searches(segment, offset, time):
    """Compares all searches with an examination of all batches."""
    batches = [(at, view) for at, view in scan_batches(segment.path)]
    starts = {at for at, _ in batches}
    lookup = SegmentLookup(segment, Files())
    found = lookup.at_offset(offset)
    assert found in starts
    assert all(view.last_offset < offset for at, view in batches if at < found)
    end = lookup.end_of(offset)
    assert end in starts | {segment.size}
    assert all(view.base_offset > offset for at, view in batches if at >= end)
    found = lookup.at_time(time)
    assert found in starts | {segment.size}
    assert all(view.max_timestamp < time for at, view in batches if at < found)
    found = lookup.before_position(offset % (segment.size + 100))
    assert found in starts
    assert found <= offset % (segment.size + 100)


TIMES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=12)
WANTED = st.integers(BASE - 2, BASE + 60)


@given(TIMES, WANTED, st.data())
def test_every_position_is_that_of_the_batches(tmp_path_factory, times, offset, data):
    segment = write_segment(tmp_path_factory.mktemp("sound"), times)
    time = data.draw(st.sampled_from([t + d for t in times for d in (-1, 0, 1)]))
    check_searches(segment, offset, time)


def cut(data, draw):
    return data[: draw(st.integers(0, len(data)))]


def zero_filled(data, draw):
    return data + bytes(draw(st.integers(0, 40)))


def zeros_before_end(data, draw):
    kept = draw(st.integers(0, len(data)))
    return data[:kept] + bytes(len(data) - kept)


def with_other_bits(data, draw):
    changed = bytearray(data)
    for place in draw(st.lists(st.integers(0, max(0, len(data) - 1)), max_size=6)):
        if place < len(changed):
            changed[place] ^= draw(st.integers(1, 255))
    return bytes(changed)


def anything(data, draw):
    return draw(st.binary(max_size=60))


def without_some(data, draw, size):
    entries = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(entry for entry in entries if draw(st.booleans()))


def shuffled(data, draw, size):
    entries = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(draw(st.permutations(entries)))


def moved(data, draw, size):
    """Adds a number to one field of all entries: offsets below the base, positions beyond the file or inside batches,
    wrong times.
    """
    layout = OffsetIndex.layout if size == 8 else TimeIndex.layout
    by, field = draw(st.integers(-500, 500)), draw(st.integers(0, 1))
    entries = [list(entry) for entry in layout.iter_unpack(data)]
    for entry in entries:
        entry[field] += by
    return b"".join(layout.pack(*entry) for entry in entries)


DAMAGES = [cut, zero_filled, zeros_before_end, with_other_bits, anything]
SIZED = [without_some, shuffled, moved]


@settings(max_examples=100)
@given(TIMES, WANTED, st.data())
def test_damaged_indexes_never_omit_a_batch(tmp_path_factory, times, offset, data):
    folder = tmp_path_factory.mktemp("damaged")
    segment = write_segment(folder, times, interval=1)
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = folder / f"{BASE:020d}{suffix}"
        kind = data.draw(st.sampled_from([None, *DAMAGES, *SIZED, "missing"]))
        if kind == "missing":
            path.unlink()
        elif kind is not None:
            extra = (size,) if kind in SIZED else ()
            path.write_bytes(kind(path.read_bytes(), data.draw, *extra))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    time = data.draw(st.sampled_from([t + d for t in times for d in (-1, 0, 1)]))
    check_searches(segment, offset, time)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_index_of_another_segment_is_not_used(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_segment(tmp_path / "a", range(0, 1000, 10))
    other = write_segment(tmp_path / "b", range(5, 2000, 20), each=2)
    for suffix in (".index", ".timeindex"):
        name = f"{BASE:020d}{suffix}"
        (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
    for offset in range(BASE, BASE + 300, 7):
        check_searches(other, offset, (offset - BASE) * 7)


def test_time_of_an_entry_is_trusted(tmp_path):
    """The writer omitted the later time of an earlier batch, which only an examination of all batches would find."""
    segment = write_segment(tmp_path, [1, 9, 2, 3, 4, 10], interval=1)
    positions = [at for at, _ in scan_batches(segment.path)]
    assert SegmentLookup(segment, Files()).at_time(5) == positions[1]
    entry = TimeIndex.layout.pack(4, 4 * 4 + 2)  # the time of its own batch
    (tmp_path / f"{BASE:020d}.timeindex").write_bytes(entry)
    assert SegmentLookup(segment, Files()).at_time(5) == positions[5]
    assert SegmentLookup(segment, Files()).at_time(4) == positions[1]


@pytest.mark.parametrize("by", [-1000, -15, -1, 1, 15])
def test_wrong_times_omit_no_batch(tmp_path, by):
    segment = write_segment(tmp_path, range(1000, 1400, 10), interval=1)
    path = tmp_path / f"{BASE:020d}.timeindex"
    entries = TimeIndex.layout.iter_unpack(path.read_bytes())
    path.write_bytes(b"".join(TimeIndex.layout.pack(time + by, at) for time, at in entries))
    for time in range(985, 1410, 5):
        check_searches(segment, BASE, time)


def test_decreasing_times_omit_no_batch(tmp_path):
    """The writer stored the time of each batch instead of the largest time up to it."""
    times = [1, 9, 2, 10, 3, 11, 4]
    segment = write_segment(tmp_path, times)
    entries = [TimeIndex.layout.pack(time, 4 * n + 2) for n, time in enumerate(times) if n]
    (tmp_path / f"{BASE:020d}.timeindex").write_bytes(b"".join(entries))
    for time in range(13):
        check_searches(segment, BASE, time)


def test_damaged_batch_at_an_entry_is_not_used(tmp_path):
    segment = write_segment(tmp_path, range(20))
    positions = [at for at, _ in scan_batches(segment.path)]
    path = tmp_path / f"{BASE:020d}.log"
    data = bytearray(path.read_bytes())
    data[positions[11] - 1] ^= 1  # the last byte of an indexed batch
    path.write_bytes(data)
    assert SegmentLookup(segment, Files()).at_offset(BASE + 43) == positions[0]
    assert SegmentLookup(segment, Files()).at_offset(BASE + 39) == positions[8]


@pytest.mark.parametrize("preallocated", [0, 10 << 20])
def test_search_reads_little_of_large_index(tmp_path, preallocated):
    rng = random.Random(1)
    times = [1000 * i + rng.randrange(500) for i in range(5000)]
    segment = write_segment(tmp_path, times, interval=1)
    for suffix in (".index", ".timeindex"):
        with (tmp_path / f"{BASE:020d}{suffix}").open("ab") as file:
            file.truncate(max(preallocated, file.tell()))
    positions = [at for at, _ in scan_batches(segment.path)]
    for number in (1, 2500, 4999):
        files = Counted()
        lookup = SegmentLookup(segment, files)
        assert lookup.at_offset(BASE + 4 * number + 2) == positions[number]
        assert lookup.end_of(BASE + 4 * number + 2) == [*positions, segment.size][number + 1]
        assert lookup.at_time(times[number]) == positions[number]
        assert lookup.before_position(positions[number]) == positions[number]
        assert files.bytes < 40_000
    assert SegmentLookup(segment, Files()).at_time(times[-1] + 1) == segment.size
