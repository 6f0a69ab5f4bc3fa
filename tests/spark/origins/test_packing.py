"""Ranges are grouped into tasks by their bytes and their number, in order."""

from typing import NamedTuple

from trimaran.spark.origins.packing import SHARE_BYTES_MAX, SHARE_BYTES_MIN, pack, share_of


class Piece(NamedTuple):
    number: int
    size: int


def test_two_thousand_small_partitions_take_eight_tasks():
    pieces = [Piece(number, 1000) for number in range(2000)]
    tasks = pack(pieces, share_of(2000 * 1000, 16))
    assert len(tasks) == 8
    assert [piece for task in tasks for piece in task] == pieces


def test_large_ranges_begin_tasks_of_their_own():
    sizes = [3, 3, 20, 4, 6, 1]
    tasks = pack([Piece(number, size) for number, size in enumerate(sizes)], 10)
    assert [[piece.size for piece in task] for task in tasks] == [[3, 3], [20], [4, 6], [1]]


def test_share_is_of_each_core_within_bounds():
    assert share_of(1 << 20, 4) == SHARE_BYTES_MIN
    assert share_of(400 << 20, 4) == 100 << 20
    assert share_of(1 << 40, 4) == SHARE_BYTES_MAX
