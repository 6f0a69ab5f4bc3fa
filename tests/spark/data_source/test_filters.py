"""Conditions of queries: matching rows are read, and most of the rest is not."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from trimaran.spark.data_source.offset_filter import EVERYTHING, OffsetFilter

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
SPANS = {A0: (0, 100), A1: (10, 20), B0: (5, 7)}


def test_everything_is_read_without_condition():
    assert EVERYTHING.narrowed(SPANS) == SPANS


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("topic", {"a"}, {A0, A1}),
        ("topic", {"a", "b"}, {A0, A1, B0}),
        ("topic", {None}, set()),
        ("partition", {0}, {A0, B0}),
        ("partition", {0, 1}, {A0, A1, B0}),
        ("partition", {2}, set()),
        ("key", {"a"}, {A0, A1, B0}),
    ],
)
def test_unnamed_topics_and_partitions_are_not_read(column, values, expected):
    assert set(EVERYTHING.equal(column, frozenset(values)).narrowed(SPANS)) == expected


def test_two_conditions_on_a_column_are_intersected():
    topics = EVERYTHING.equal("topic", frozenset("ab")).equal("topic", frozenset("bc"))
    assert set(topics.narrowed(SPANS)) == {B0}
    numbers = EVERYTHING.equal("partition", frozenset({0, 1})).equal("partition", frozenset({1}))
    assert set(numbers.narrowed(SPANS)) == {A1}
    both = EVERYTHING.equal("topic", frozenset("a")).equal("partition", frozenset({0}))
    assert set(both.narrowed(SPANS)) == {A0}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("at_least", "offset", 12)], (12, 100)),
        ([("at_least", "offset", 12), ("at_least", "offset", 8)], (12, 100)),
        ([("at_least", "offset", 8), ("at_least", "offset", 12)], (12, 100)),
        ([("at_most", "offset", 12)], (0, 13)),
        ([("at_most", "offset", 12), ("at_most", "offset", 20)], (0, 13)),
        ([("at_most", "offset", 20), ("at_most", "offset", 12)], (0, 13)),
        ([("at_least", "offset", 3), ("at_most", "offset", 3)], (3, 4)),
        ([("equal", "offset", frozenset({40, 3, 7}))], (3, 41)),
        ([("equal", "offset", frozenset({None}))], (0, 100)),
        ([("equal", "offset", frozenset())], (0, 100)),
        ([("equal", "size", frozenset({3}))], (0, 100)),
        ([("at_least", "offset", "x")], (0, 100)),
        ([("at_most", "offset", "x")], (0, 100)),
        ([("at_least", "size", 12)], (0, 100)),
        ([("at_most", "size", 12)], (0, 100)),
        ([("at_most", "timestamp", datetime(2024, 1, 1, tzinfo=UTC))], (0, 100)),
    ],
)
def test_offsets_that_cannot_fit_are_not_read(conditions, expected):
    made = EVERYTHING
    for kind, column, value in conditions:
        made = getattr(made, kind)(column, value)
    assert made.narrowed(SPANS)[A0] == expected


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_704_110_400_000


@pytest.fixture
def elsewhere(monkeypatch):
    """Sets a time zone other than UTC."""
    monkeypatch.setenv("TZ", "XXX-5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([NOON], NOON_MS - 1),
        ([NOON.replace(tzinfo=None)], NOON_MS - 1),
        ([NOON.astimezone(timezone(timedelta(hours=5)))], NOON_MS - 1),
        ([NOON, NOON - timedelta(hours=1)], NOON_MS - 1),
        ([NOON - timedelta(hours=1), NOON], NOON_MS - 1),
        (["noon"], None),
    ],
)
def test_batches_before_the_wanted_time_are_not_read(elsewhere, times, expected):
    made = OffsetFilter()
    for moment in times:
        made = made.at_least("timestamp", moment)
    assert made.timestamp_ms == expected
    assert made.narrowed(SPANS) == SPANS
    assert made.at_least("produced", NOON + timedelta(hours=1)) == made
