"""Work that yields to the loop between its parts."""

from __future__ import annotations

import pytest

from trimaran.node.runtime import turns
from trimaran.node.runtime.steps import pieces
from trimaran.node.runtime.turns import in_turns, piece_by_piece, with_checkpoints


@pytest.mark.parametrize(
    ("count", "pieces", "done_at_turns"),
    [(0, [], []), (2, [2], []), (3, [3], [1]), (5, [3, 2], [1]), (6, [3, 3], [1, 2])],
)
async def test_loop_yields_after_each_whole_piece(monkeypatch, count, pieces, done_at_turns):
    done, had = [], []

    async def others():
        had.append(len(done))

    monkeypatch.setattr(turns, "yield_to_loop", others)
    await piece_by_piece(range(count), 3, done.append)
    assert [len(some) for some in done] == pieces
    assert had == done_at_turns


@pytest.fixture
def yielded(monkeypatch):
    """Returns a list that grows by one whenever other tasks have had a turn."""
    found = []

    async def others():
        found.append(1)

    monkeypatch.setattr(turns, "yield_to_loop", others)
    return found


@pytest.mark.parametrize(("count", "had"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2)])
async def test_loop_yields_after_given_item_count(yielded, count, had):
    seen = []

    def items():
        for number in range(count):
            seen.append(len(yielded))
            yield number

    await in_turns(items(), 3)
    assert len(yielded) == had
    assert seen == [number // 3 for number in range(count)]


async def test_loop_yields_after_each_share_of_work(yielded):
    had = []

    def steps():
        for done in (1, 1, 1, 5, 2, 1, 2):
            yield done
            had.append(len(yielded))
        return "result"

    assert await with_checkpoints(steps(), 3) == "result"
    assert had == [0, 0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [[0]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3]]), (6, [[0, 1, 2], [3, 4, 5]])],
)
def test_items_come_in_pieces_of_given_size(count, expected):
    assert list(pieces(iter(range(count)), 3)) == expected


def test_pieces_reflect_items_at_request():
    items = [1, 2, 3]
    found = pieces(items, 2)
    assert next(found) == [1, 2]
    items.clear()
    assert list(found) == [[3]]
