"""The lines of members are parsed to a history, and its errors are found."""

import pytest

from tests.chaos.share_events import broken
from tests.share_history import Rule

LINES = (
    "a word of the client",
    "delivered 1 1", "accepted 1 ok",
    "delivered 2 1", "released 2 ok", "delivered 2 2", "accepted 2 ok",
    "delivered 3 1", "accepted 3 DisconnectException", "delivered 3 1", "accepted 3 ok",
    "delivered 4 2", "accepted 4 DisconnectException",
)  # fmt: skip
ACKED = [b"1", b"2", b"3", b"4"]


def test_correct_history_has_no_errors():
    assert broken(ACKED, LINES) == []


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (
            ("delivered 1 2", "accepted 1 ok", "delivered 5 1", "accepted 5 ok"),
            Rule.DELIVERED_AFTER_END,
        ),
        (
            ("delivered 5 1", "released 5 ok", "delivered 5 1", "accepted 5 ok"),
            Rule.COUNT_TOO_LOW,
        ),
        (("delivered 5 6", "accepted 5 ok"), Rule.COUNT_TOO_HIGH),
        (("delivered 5 1",), Rule.NOT_ENDED),
        (("delivered 5 1", "released 5 ok"), Rule.NOT_ENDED),
        (("delivered 5 1", "accepted 5 DisconnectException", "delivered 5 1"), Rule.NOT_ENDED),
        ((), Rule.NOT_ENDED),
    ],
)
def test_broken_history_is_reported(more, found):
    assert [breach.rule for breach in broken([*ACKED, b"5"], [*LINES, *more])] == [found]


@pytest.mark.parametrize(("limit", "found"), [(5, [Rule.COUNT_TOO_HIGH]), (6, [])])
def test_delivery_limit_of_group_is_applied(limit, found):
    lines = [*LINES, *(f"delivered 5 {count}" for count in range(1, 7)), "accepted 5 ok"]
    assert [breach.rule for breach in broken([*ACKED, b"5"], lines, limit)] == found
