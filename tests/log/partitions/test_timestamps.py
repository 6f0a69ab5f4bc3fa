"""Look-ups by time: the offsets of whole segments, the batches that need no thread, and the bounds of a look-up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.log.helpers import Compression, append, batch_bytes, open_log, view_of
from trimaran.log.batches.batch import BatchView
from trimaran.log.config import LogConfig
from trimaran.log.partitions.timestamps import (
    CandidateBatch,
    TimestampOffset,
    offsets_before,
    resolve,
)
from trimaran.log.steps import TakesLong, at_once


class Files:
    """A file layer with given modification times, by path."""

    def __init__(self, **times):
        self.times = times

    def status(self, path):
        return SimpleNamespace(modified_ms=self.times[path])


def segments(*, removed=(), missing=(), last_size=5):
    """Returns three segments at 10, 20 and 30, last written at 100, 200 and 300."""
    files = Files(a=100, b=200, c=300)
    return [
        SimpleNamespace(
            base_offset=base_offset,
            size=last_size if name == "c" else 5,
            removed=name in removed,
            exists=name not in missing,
            files=files,
            path=lambda suffix, name=name: name if suffix == ".log" else suffix,
        )
        for base_offset, name in ((10, "a"), (20, "b"), (30, "c"))
    ]


@pytest.mark.parametrize(
    ("timestamp_ms", "expected", "steps"),
    [
        (None, [35, 30, 20, 12], 0),
        (301, [30, 20, 12], 0),
        (300, [30, 20, 12], 0),
        (299, [20, 12], 1),
        (200, [20, 12], 1),
        (100, [12], 2),
        (99, [], 3),
    ],
)
def test_segments_written_by_then_are_listed(timestamp_ms, expected, steps):
    """ListOffsets v0: the last first; the log starts at 12 and ends at 35."""
    running = offsets_before(segments(), timestamp_ms, 12, 35)
    assert list(running) == [1] * steps
    assert at_once(offsets_before(segments(), timestamp_ms, 12, 35)) == expected


def test_removed_or_missing_segment_has_no_time():
    found = at_once(offsets_before(segments(removed="c"), 300, 0, 35))
    assert found == [20, 10]
    assert at_once(offsets_before(segments(missing="c"), 200, 0, 35)) == [30, 20, 10]
    assert at_once(offsets_before(segments(last_size=0), None, 0, 30)) == [30, 20, 10]


@pytest.mark.parametrize(
    ("size", "compression", "expected"),
    [
        (16 << 10, Compression.NONE, True),
        ((16 << 10) + 1, Compression.NONE, False),
        (100, Compression.GZIP, False),
    ],
)
def test_small_batch_is_searched_at_once(size, compression, expected):
    header = BatchView(memoryview(bytearray(batch_bytes(1, compression=compression))))
    sized = SimpleNamespace(attributes=header.attributes, magic=2, size=size)
    assert CandidateBatch(None, None, 0, sized, 0, 0).is_small is expected
    old = SimpleNamespace(attributes=0, magic=1, size=size)
    assert not CandidateBatch(None, None, 0, old, 0, 0).is_small


def test_lookup_ends_after_its_headers():
    def lookup():
        yield 2
        yield 3
        return "found"

    assert resolve(lookup()) == "found"
    assert resolve(lookup(), 5) == "found"
    with pytest.raises(TakesLong):
        resolve(lookup(), 4)


def test_failed_search_is_thrown_into_the_lookup():
    seen = []

    class Failing(CandidateBatch):
        def find(self):
            raise ValueError("damaged")

    def lookup():
        try:
            yield Failing(None, None, 0, None, 0, 0)
        except ValueError as error:
            seen.append(error)
            raise

    with pytest.raises(ValueError, match="damaged"):
        resolve(lookup())
    assert len(seen) == 1


@pytest.fixture
def log(tmp_path):
    """Returns a log of two segments, with two batches of two records in each; times are 10 times the offsets."""
    log = open_log(tmp_path / "t-0", LogConfig())
    for offset in (0, 2, 4, 6):
        if offset == 4:
            log.roll(0)
        append(log, 2, timestamp_ms=10 * offset, step_ms=10, epoch=offset // 4)
    yield log
    log.close(clean=False)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        *((-1, (0, 0, 0)), (0, (0, 0, 0)), (1, (10, 1, 0)), (10, (10, 1, 0)), (11, (20, 2, 0))),
        *((31, (40, 4, 1)), (61, (70, 7, 1)), (70, (70, 7, 1)), (71, None)),
    ],
)
def test_first_record_from_a_time_on_is_found(log, timestamp_ms, expected):
    found = log.offset_for_timestamp(timestamp_ms)
    assert found == (expected and TimestampOffset(*expected))
    assert log.max_timestamp_offset() == (70, 7, 1)


@pytest.mark.parametrize("start", [0, 1, 2, 3, 5, 7, 8])
def test_records_below_the_start_are_not_found(log, start):
    log.delete_records_before(start)
    for timestamp_ms in range(-1, 80):
        first = max(start, -(-max(timestamp_ms, 0) // 10))
        expected = (10 * first, first, first // 4) if first < 8 else None
        assert log.offset_for_timestamp(timestamp_ms) == expected, timestamp_ms


def test_first_of_equal_largest_times_is_found(tmp_path):
    log = open_log(tmp_path / "t-0")
    assert log.max_timestamp_offset() is None
    for times in ((5, 0), (9, 0), (9, 0), (3, 0)):
        append(log, 2, timestamp_ms=times[0], step_ms=times[1])
    assert log.max_timestamp_offset() == (9, 2, 0)
    assert view_of(log.read_bytes(2, 1, upto_offset=8)).base_offset == 2
    log.close(clean=False)
