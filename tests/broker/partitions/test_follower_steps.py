"""Long work of a follower in steps: runs of fetched batches, and segments that are removed a few at a time."""

from __future__ import annotations

import struct

import pytest

from tests.broker.partitions.test_follower_rules import follow, harness, record
from trimaran.broker.partitions import follower as module
from trimaran.broker.partitions.follower import in_runs

__all__ = ["harness"]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, [0]), (1, [1]), (2, [2]), (3, [2, 1]), (4, [2, 2]), (5, [2, 2, 1])]
)
def test_fetched_batches_come_in_runs(count, expected):
    one = bytes(record(0))
    runs = [bytes(run) for run in in_runs(memoryview(one * count), 2)]
    assert runs == [one * number for number in expected]


def test_smallest_messages_of_old_formats_come_in_runs():
    """A message of v0 without key and value has 26 bytes."""
    one = struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1)
    runs = [len(run) for run in in_runs(memoryview(one * 5), 2)]
    assert runs == [len(one) * number for number in (2, 2, 1)]


@pytest.mark.parametrize("tail", [b"\0" * 100, b"torn", b"\xff" * 61])
def test_foreign_bytes_end_the_last_run(tail):
    one = bytes(record(0))
    for count, expected in ((2, [one * 2, tail]), (3, [one * 2, one + tail])):
        assert [bytes(run) for run in in_runs(memoryview(one * count + tail), 2)] == expected


@pytest.mark.parametrize(
    ("offset", "ends"), [(5, []), (3, []), (2, []), (1, [3]), (0, [3]), (-1, [3])]
)
def test_segments_are_removed_a_few_at_a_time(harness, monkeypatch, offset, ends):
    monkeypatch.setattr(module, "SEGMENTS_AT_ONCE", 3)
    follower = follow(harness).open_follower()
    for number in range(6):
        follower.log.roll(0)
        follower.append(record(number))
    assert follower.log.segment_base_offsets == (0, 1, 2, 3, 4, 5)
    steps = follower.cut_segments_above(offset)
    assert [follower.log.log_end_offset for _ in steps] == ends


def test_follower_without_log_drops_no_files(harness):
    held = follow(harness)
    follower = held.open_follower()
    assert not follower.drops_files(5)
    assert not follower.lies_below(5)
    assert list(follower.drop_deleted(5)) == []
    assert (follower.is_new, held.open_log) == (True, None)
