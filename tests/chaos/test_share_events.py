"""The checker of share groups finds the errors in broken histories, and none in correct ones."""

from dataclasses import replace

import pytest

from tests.chaos.share_events import ShareVerdict, judge

SOUND = ShareVerdict(0, 0, 0, 0)
LINES = (
    "a word of the client",
    "delivered 1 1", "accepted 1 ok",
    "delivered 2 1", "released 2 ok", "delivered 2 2", "accepted 2 ok",
    "delivered 3 1", "accepted 3 DisconnectException", "delivered 3 1", "accepted 3 ok",
    "delivered 4 2", "accepted 4 DisconnectException",
)  # fmt: skip
ACKED = [b"1", b"2", b"3", b"4"]


def test_correct_history_has_no_errors():
    verdict = judge(ACKED, LINES)
    assert (verdict, verdict.ok) == (SOUND, True)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (("delivered 1 2",), {"doubled": 1}),
        (("delivered 5 1", "released 5 ok", "delivered 5 1", "accepted 5 ok"), {"miscounted": 1}),
        (("delivered 5 1",), {"open": 1}),
        (("delivered 5 1", "released 5 ok"), {"open": 1}),
        (("delivered 5 1", "accepted 5 DisconnectException", "delivered 5 1"), {"open": 1}),
        ((), {"lost": 1, "open": 1}),
    ],
)
def test_broken_history_is_reported(more, found):
    verdict = judge([*ACKED, b"5"] if "doubled" not in found else ACKED, [*LINES, *more])
    assert verdict == replace(SOUND, **found)
    assert not verdict.ok
