"""Positions in a partition, as users write them."""

from datetime import datetime, timedelta

import pytest

from trimaran.client.positions import Position, parse_position
from trimaran.errors.user_error import UserError
from trimaran.node.runtime.clock import now_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Position(timestamp_ms=-2)),
        ("earliest", Position(timestamp_ms=-2)),
        ("end", Position(timestamp_ms=-1)),
        ("latest", Position(timestamp_ms=-1)),
        ("0", Position(offset=0)),
        ("42", Position(offset=42)),
        ("-10", Position(before_end=10)),
        ("@1700000000000", Position(timestamp_ms=1_700_000_000_000)),
        ("@2026-11-23T12:00:00+00:00", Position(timestamp_ms=1_795_435_200_000)),
        ("@2026-11-23T13:00:00+01:00", Position(timestamp_ms=1_795_435_200_000)),
    ],
)
def test_written_positions_are_parsed(text, expected):
    assert parse_position(text) == expected


def test_time_without_zone_is_local():
    local = datetime(2026, 11, 23, 12).astimezone()
    assert parse_position("@2026-11-23T12:00").timestamp_ms == local.timestamp() * 1000


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("@-500ms", timedelta(milliseconds=500)),
        ("@-15m", timedelta(minutes=15)),
        ("@-2d", timedelta(days=2)),
    ],
)
def test_age_is_parsed_as_time(text, ago):
    before = now_ms()
    found = parse_position(text).timestamp_ms + ago / timedelta(milliseconds=1)
    assert before <= found <= now_ms()


@pytest.mark.parametrize(
    "text",
    ["", "nowhere", "+5", "1.5", "--1", "@", "@yesterday", "@-5", "@-5y", "9" * 30, "@9999999-1-1"],
)
def test_other_positions_are_refused_with_syntax(text):
    with pytest.raises(UserError) as caught:
        parse_position(text)
    assert "@2026-11-23T12:00" in caught.value.fix
