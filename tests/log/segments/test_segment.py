"""Look-ups in a segment with no index in memory: the results equal those of a scan of every header, with few reads."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import append, batch_bytes, fill, open_log, view_of
from trimaran.log.batches.batch import MAGIC_POSITION, iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import Files
from trimaran.log.segments.index import IndexLost
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import TAIL_BATCHES_MAX, Boundary, Segment
from trimaran.wire.errors import ErrorCode, KafkaError

CONFIG = LogConfig(segment_bytes=1 << 30, index_interval_bytes=300)
EVERY_BATCH_IS_LARGE, NONE_IS = 0, 1 << 40


class CountingFiles(Files):
    def __init__(self):
        super().__init__()
        self.reads = 0

    def pread(self, file, size, position):
        self.reads += 1
        return super().pread(file, size, position)


def written(directory, batches, files=None):
    """Returns a log with batches given as (omitted offsets before it, records, bytes of a value)."""
    log = open_log(directory, CONFIG, clean=True, files=files or Files())
    for gap, count, size in batches:
        base_offset = log.log_end_offset + gap
        data = batch_bytes(count, value=bytes(size), base_offset=base_offset, leader_epoch=0)
        log.append_as_follower(memoryview(data))
    return log


def sealed(directory, batches, files=None):
    """Returns the only segment of a log as `written`, with nothing in memory."""
    segment = written(directory, batches, files).active_segment
    segment.seal()
    segment.release()
    return segment


def headers_of(segment):
    return list(scan_headers(segment.files, segment.file, 0, segment.size))


def located(headers, offset):
    return next((position for position, view in headers if view.last_offset >= offset), None)


def boundary_by_headers(headers, limit, start):
    """Returns the last end of a batch at most `limit`, and above `start`; it determines where the batch before it, or
    the next one, begins.
    """
    ends = [(position + view.size, view.next_offset) for position, view in headers]
    return next((end for end in reversed(ends) if start < end[0] <= limit), None)


batches = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 50]), st.integers(1, 4), st.sampled_from([1, 100, 400, 5000])
    ),
    min_size=1,
    max_size=25,
)
# Changes these bytes of entries: the sign of offset or position, or a small or large part of the number.
damage = st.lists(
    st.tuples(
        st.integers(0, 40), st.sampled_from([0, 3, 4, 6, 7]), st.sampled_from([0x80, 4, 2, 1])
    ),
    max_size=2,
)


@pytest.mark.parametrize("large_bytes", [EVERY_BATCH_IS_LARGE, 600, NONE_IS])
@given(batches=batches, steps=st.integers(1, 7), damage=damage)
def test_place_is_found_as_by_scan(tmp_path_factory, large_bytes, batches, steps, damage):
    segment = sealed(tmp_path_factory.mktemp("log") / "t-0", batches)
    headers = headers_of(segment)
    index = segment.offset_index
    if index.entries:  # damage causes no wrong answer
        data = bytearray(index.path.read_bytes())
        for entry, byte, bits in damage:
            data[entry % index.entries * 8 + byte] ^= bits
        index.path.write_bytes(data)
    with mock.patch("trimaran.log.segments.segment.LARGE_BATCH_BYTES", large_bytes):
        for offset in range(0, segment.next_offset + 2, steps):
            assert segment.locate(offset, 300) == located(headers, offset)
            segment.release()
        for start in [position for position, _ in headers][::steps]:
            for limit in range(start, segment.size + 300, 150 * steps):
                found = segment.boundary(limit, start, 300)
                expected = boundary_by_headers(headers, limit, start)
                assert (found and found.position) == (expected and expected[0])
                assert found is None or is_between(found, headers, expected[1])
                segment.release()


@given(batches=batches, kept=st.integers(1, 8), steps=st.integers(1, 7), reopened=st.booleans())
def test_remembered_newest_batches_are_found(tmp_path_factory, batches, kept, steps, reopened):
    """In a reopened log these are the last batches, which have no index entry."""
    directory = tmp_path_factory.mktemp("log") / "t-0"
    with mock.patch("trimaran.log.segments.segment.TAIL_BATCHES_MAX", kept):
        log = written(directory, batches)
        if reopened:
            log.close()
            log = open_log(directory, CONFIG, clean=True)
    segment = log.active_segment
    headers = headers_of(segment)
    for start, view in headers[::steps]:
        assert segment.locate(view.last_offset, 300) == start
        assert segment.end_of_batch(start) == start + view.size
        for limit in range(start, segment.size + 300, 150):
            found = segment.boundary(limit, start, 300)
            expected = boundary_by_headers(headers, limit, start)
            assert (found and found.position) == (expected and expected[0])
            assert found is None or is_between(found, headers, expected[1])


def test_newest_batch_is_found_without_a_read(tmp_path):
    files = CountingFiles()
    log = written(tmp_path / "t-0", [(0, 1, 100)] * 3 + [(0, 1, 5000)], files)
    before = files.reads
    for offset in range(4):
        assert log.read(offset, 10, upto_offset=4, min_one=True).size
    assert files.reads == before


def is_between(found: Boundary, headers, end_offset):
    """Returns whether a boundary is valid: a reader that has everything below it may continue there."""
    following = next((view.base_offset for at, view in headers if at == found.position), end_offset)
    return end_offset <= found.offset <= following


def test_log_is_not_truncated_behind_damage(tmp_path):
    """The end offset of the remaining batches is unknown: later appends would have lower offsets."""
    log = fill(open_log(tmp_path / "t-0", LogConfig()), 4)
    segment = log.active_segment
    damaged, _ = headers_of(segment)[1]
    segment.files.pwrite(segment.file, b"\x09", damaged + MAGIC_POSITION)
    with pytest.raises(KafkaError) as raised:
        log.truncate_to(9)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"position {damaged} " in str(raised.value)
    assert log.log_end_offset == 12


@pytest.mark.parametrize(("value_bytes", "reads_max"), [(20_000, 4), (1000, 7)])
def test_slice_of_large_batches_takes_four_reads(tmp_path, value_bytes, reads_max):
    files = CountingFiles()
    config = LogConfig(segment_bytes=8 << 20, retention_ms=-1)
    log = open_log(tmp_path / "t-0", config, clean=True, files=files)
    while len(log.segment_base_offsets) < 2:
        append(log, value=bytes(value_bytes))
    end = log.segment_base_offsets[1]
    log.read(0, 1, upto_offset=end, min_one=True)
    log.sealed_segments[0].release()
    log.sealed_segments[0].locate(0, config.index_interval_bytes)  # loads the index
    for offset in range(1, end // 2, 7):  # the first batch is the only one without an entry
        before = files.reads
        piece = log.read(offset, 1 << 20, upto_offset=log.log_end_offset, min_one=True)
        assert files.reads - before <= reads_max
        assert piece.size > (1 << 20) - value_bytes - 200


@pytest.mark.parametrize("cut", [0, 3, 40, 100])
def test_hints_above_cut_are_forgotten(tmp_path, cut):
    """After a truncation the offset of an old boundary may have another batch, so no reader is sent there."""
    config = LogConfig(segment_bytes=1 << 20)
    log = fill(open_log(tmp_path / "t-0", config), TAIL_BATCHES_MAX, count=1)
    for offset in range(0, 120, 4):
        log.read(offset, 300, upto_offset=log.log_end_offset, min_one=True)  # the read leaves hints
    log.truncate_to(cut)
    fill(log, TAIL_BATCHES_MAX, count=2, value=b"another size" * 3)
    for offset in range(cut, 200):
        piece = log.read(offset, 1, upto_offset=log.log_end_offset, min_one=True)
        first = next(iter_batches(piece.read()))
        assert first.base_offset <= offset <= first.last_offset


def test_cache_of_2048_batches_keeps_newer_half(tmp_path):
    segment = Segment(tmp_path, 0, Files(), size=0, created=True)
    data = batch_bytes(1)
    view = view_of(data)
    for offset in range(2049):
        assert len(segment._tail_positions) == offset
        view.base_offset = offset
        segment.append(memoryview(data), [view], 1 << 30)
    assert list(segment._tail_last_offsets) == list(range(1024, 2049))


def test_hints_of_32_readers_are_kept_oldest_evicted(tmp_path):
    segment = Segment(tmp_path, 0, Files(), size=1000, created=True)
    for number in range(33):
        assert len(segment._hints) == number
        segment.hint(Boundary(number, number))
    assert sorted(segment._hints) == list(range(1, 33))


@pytest.mark.parametrize("more", [0, 1])
def test_lost_index_of_a_mebibyte_is_rebuilt(tmp_path, more):
    segment = Segment(tmp_path, 0, Files(), size=0, created=True)
    data = batch_bytes(1, value=bytes((1 << 20) - 74 + more))
    assert len(data) == (1 << 20) + more
    segment.append(memoryview(data), [view_of(data)], 100)
    segment.seal()
    segment.release()
    segment.path(".index").unlink()
    opened = Segment(tmp_path, 0, Files(), size=len(data), created=False)
    if more:
        with pytest.raises(IndexLost):
            opened.locate(0, 100, rebuilds=False)
    assert opened.locate(0, 100, rebuilds=more > 0) == 0
