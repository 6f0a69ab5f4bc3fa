from __future__ import annotations

import pytest

from trimaran.broker.handlers.batches import in_batches


@pytest.mark.parametrize(
    ("listed", "size", "batches"),
    [
        ([], 4, []),
        ([("a", [])], 4, [[("a", [])]]),
        ([("a", [1, 2]), ("b", [3])], 5, [[("a", [1, 2]), ("b", [3])]]),
        ([("a", [1, 2, 3, 4, 5])], 3, [[("a", [1, 2, 3])], [("a", [4, 5])]]),
        ([("a", [1]), ("b", [2, 3])], 3, [[("a", [1]), ("b", [2])], [("b", [3])]]),
        ([("a", []), ("b", []), ("c", [])], 2, [[("a", []), ("b", [])], [("c", [])]]),
    ],
)
def test_items_are_cut_into_batches_with_their_keys(listed, size, batches):
    assert list(in_batches(listed, size)) == batches
