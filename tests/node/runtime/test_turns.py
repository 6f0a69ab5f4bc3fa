"""Work that gives up the loop in between."""

from __future__ import annotations

import pytest

from node.runtime import turns
from node.runtime.turns import piece_by_piece


@pytest.mark.parametrize(
    ("count", "pieces", "done_at_turns"),
    [(0, [], []), (2, [2], []), (3, [3], [1]), (5, [3, 2], [1]), (6, [3, 3], [1, 2])],
)
async def test_others_have_their_turn_behind_each_whole_piece(
    monkeypatch, count, pieces, done_at_turns
):
    done, had = [], []

    async def others():
        had.append(len(done))

    monkeypatch.setattr(turns, "yield_to_loop", others)
    await piece_by_piece(range(count), 3, done.append)
    assert [len(some) for some in done] == pieces
    assert had == done_at_turns
