"""The choice of segments to delete, at each limit and next to it. A segment here has only a position, a size and an
age.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trimaran.log.config import LogConfig
from trimaran.log.partitions import retention
from trimaran.log.partitions.retention import LogBounds, date_oldest, deletable, newest_ms
from trimaran.wire.identity import NO_TIMESTAMP

# Base offset, size and age of each; the log ends at 25.
SEGMENTS = [
    SimpleNamespace(base_offset=0, size=100, newest=1000),
    SimpleNamespace(base_offset=10, size=110, newest=2000),
    SimpleNamespace(base_offset=20, size=50, newest=3000),
]


@pytest.fixture(autouse=True)
def _ages(monkeypatch):
    monkeypatch.setattr(retention, "newest_ms", lambda segment, _config: segment.newest)


def deleted(*, start=0, watermark=25, now_ms=0, at_most=None, size=260, **limits):
    config = LogConfig(**{"retention_ms": -1, **limits})
    bounds = LogBounds(start, 25, watermark, size)
    return deletable(SEGMENTS, bounds, config, now_ms, at_most)


@pytest.mark.parametrize(
    ("retention_bytes", "expected"),
    [(-1, 0), (0, 3), (1, 2), (50, 2), (51, 1), (160, 1), (161, 0), (1 << 40, 0)],
)
def test_remaining_segments_keep_the_configured_size(retention_bytes, expected):
    assert deleted(retention_bytes=retention_bytes) == expected
    assert deleted(retention_bytes=retention_bytes, deletes=False) == 0
    assert deleted(retention_bytes=retention_bytes, at_most=1) == min(expected, 1)


@pytest.mark.parametrize(
    ("retention_ms", "now_ms", "expected"),
    [
        *((500, 1500, 0), (500, 1501, 1), (500, 2500, 1), (500, 2501, 2), (500, 3501, 3)),
        *((0, 1000, 0), (0, 1001, 1), (-1, 10**9, 0)),
    ],
)
def test_segment_older_than_its_retention_is_deleted(retention_ms, now_ms, expected):
    assert deleted(retention_ms=retention_ms, now_ms=now_ms) == expected
    assert deleted(retention_ms=retention_ms, now_ms=now_ms, deletes=False) == 0


@pytest.mark.parametrize(
    ("watermark", "expected"), [(9, 0), (10, 1), (19, 1), (20, 2), (24, 2), (25, 3)]
)
def test_no_segment_above_the_watermark_is_deleted(watermark, expected):
    assert deleted(watermark=watermark, retention_bytes=0) == expected


@pytest.mark.parametrize(
    ("start", "expected"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (25, 2)]
)
def test_segment_below_the_start_is_deleted(start, expected):
    """This holds for any cleanup policy. The active segment is never below the start."""
    assert deleted(start=start) == deleted(start=start, deletes=False) == expected
    assert deleted(start=start, watermark=9) == 0


def test_empty_active_segment_stays(monkeypatch):
    monkeypatch.setattr(SEGMENTS[-1], "size", 0)
    assert deleted(retention_ms=0, now_ms=10**9) == 2
    monkeypatch.setattr(SEGMENTS[0], "size", 0)
    assert deleted(retention_ms=0, now_ms=10**9) == 2, "an older one does not"


def age_of(monkeypatch, found, status):
    """Returns the age mark of a segment with that largest timestamp, and with that time of its file."""
    monkeypatch.undo()
    monkeypatch.setattr(retention, "largest_timestamp", lambda *_arguments: iter_of(found))
    files = SimpleNamespace(status=lambda path: SimpleNamespace(modified_ms=(path, status)))
    segment = SimpleNamespace(files=files, path=lambda suffix: suffix)
    return newest_ms(segment, LogConfig())


def iter_of(value):
    yield from ()
    return value


@pytest.mark.parametrize(
    ("found", "expected"), [(0, 0), (7, 7), (NO_TIMESTAMP, (".log", 99)), (-2, (".log", 99))]
)
def test_segment_without_timestamps_has_files_age(monkeypatch, found, expected):
    assert age_of(monkeypatch, found, 99) == expected


@pytest.mark.parametrize(
    ("limits", "now_ms", "dated"),
    [
        ({"retention_ms": -1}, 5000, 0),
        ({"retention_ms": 0, "deletes": False}, 5000, 0),
        ({"retention_ms": 500}, 1500, 1),
        ({"retention_ms": 500}, 1501, 2),
        ({"retention_ms": 500}, 2501, 3),
        ({"retention_ms": 500}, 9999, 3),
        ({"retention_ms": 500, "retention_bytes": 0}, 1500, 3),
        ({"retention_ms": 0}, 1000, 1),
    ],
)
def test_segments_are_dated_until_the_first_young(monkeypatch, limits, now_ms, dated):
    """A young segment ends the search only if the size is not limited."""
    asked = []

    def largest(segment, index_interval):
        asked.append((segment.base_offset, index_interval))
        yield 1
        return segment.newest

    monkeypatch.setattr(retention, "largest_timestamp", largest)
    config = LogConfig(index_interval_bytes=77, **limits)
    assert list(date_oldest(SEGMENTS, config, now_ms)) == [1] * dated
    assert asked == [(offset, 77) for offset in (0, 10, 20)][:dated]


@pytest.mark.parametrize(("timestamp", "dated"), [(0, 1), (NO_TIMESTAMP, 3)])
def test_segment_without_timestamps_is_not_young(monkeypatch, timestamp, dated):
    monkeypatch.setattr(retention, "largest_timestamp", lambda *_arguments: one_step(timestamp))
    config = LogConfig(retention_ms=10**9)
    assert len(list(date_oldest(SEGMENTS, config, 0))) == dated


def one_step(value):
    yield 1
    return value
