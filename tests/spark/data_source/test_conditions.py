"""Conditions of queries: matching rows are read, and most of the rest is not."""

import json
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.spark.data_source.conditions import (
    BOXES_MAX,
    GAP_OFFSETS,
    NO_CONDITIONS,
    Conditions,
)
from trimaran.spark.origins.origin import Part, Span
from trimaran.wire.identity import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SPAN = Span(0, 100)


def parts(*trees, key=A0, span=SPAN, level="records"):
    return Conditions.parse(json.dumps(trees), level).parts(key, span)


def admitted(*trees, level="records"):
    conditions = Conditions.parse(json.dumps(trees), level)
    return [key for key in (A0, A1, B0) if conditions.admits(key)]


def test_everything_is_read_without_condition():
    assert NO_CONDITIONS.parts(A0, SPAN) == [Part(0, 100)]
    assert parts(None) == parts(["Unheard", "offset", 5]) == [Part(0, 100)]
    assert parts(span=Span(7, 7)) == []


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (["EqualTo", "topic", "a"], [A0, A1]),
        (["EqualTo", "TOPIC", "a"], [A0, A1]),
        (["EqualNullSafe", "topic", "b"], [B0]),
        (["Not", ["EqualTo", "topic", "a"], None], [B0]),
        (["In", "topic", ["b", "c"]], [B0]),
        (["In", "topic", ["c", None]], [A0, A1, B0]),
        (["Not", ["In", "topic", ["b", "c"]], None], [A0, A1]),
        (["StringStartsWith", "topic", "a"], [A0, A1]),
        (["StringEndsWith", "topic", "b"], [B0]),
        (["StringContains", "topic", "x"], []),
        (["GreaterThan", "topic", "a"], [B0]),
        (["GreaterThanOrEqual", "topic", "b"], [B0]),
        (["LessThan", "topic", "b"], [A0, A1]),
        (["LessThanOrEqual", "topic", "a"], [A0, A1]),
        (["IsNull", "topic"], []),
        (["IsNotNull", "partition"], [A0, A1, B0]),
        (["EqualTo", "partition", 0], [A0, B0]),
        (["EqualTo", "partition", "0"], [A0, A1, B0]),
        (["EqualTo", "topic", None], [A0, A1, B0]),
        (["LessThan", "partition", 0], []),
        (["Or", ["EqualTo", "topic", "b"], ["EqualTo", "partition", 1]], [A1, B0]),
        (["Or", ["EqualTo", "topic", "b"], None], [A0, A1, B0]),
        (["And", ["EqualTo", "topic", "b"], None], [B0]),
        (["Not", ["And", ["EqualTo", "topic", "b"], None], None], [A0, A1, B0]),
        (["Not", ["Or", ["EqualTo", "topic", "b"], None], None], [A0, A1]),
        (["EqualTo", "offset", {}], [A0, A1, B0]),
        (["In", "offset", [5, {}]], [A0, A1, B0]),
        (["EqualTo", "value", "b"], [A0, A1, B0]),
    ],
)
def test_partitions_without_matching_rows_are_omitted(tree, expected):
    assert admitted(tree) == expected


def test_decoded_level_has_another_topic_column():
    assert admitted(["EqualTo", "topic", "b"], level="group_offsets") == [A0, A1, B0]
    assert admitted(["EqualTo", "partition", 1], level="group_offsets") == [A1]
    assert parts(["LessThan", "offset", 5], level="group_offsets") == [Part(0, 5)]


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ([["EqualTo", "offset", 5]], [(5, 6)]),
        ([["GreaterThan", "offset", 5], ["LessThanOrEqual", "offset", 7]], [(6, 8)]),
        ([["GreaterThanOrEqual", "offset", 5], ["LessThan", "offset", 7]], [(5, 7)]),
        ([["EqualTo", "offset", 500]], []),
        ([["IsNull", "offset"]], []),
        ([["Not", ["LessThan", "offset", 90], None]], [(90, 100)]),
        ([["Not", ["EqualTo", "offset", 0], None]], [(1, 100)]),
        ([["EqualTo", "offset", True]], [(0, 100)]),
    ],
)
def test_offsets_that_cannot_match_are_not_read(trees, expected):
    assert [part[:2] for part in parts(*trees)] == expected


def test_distant_offsets_are_read_apart():
    far = 10 * GAP_OFFSETS
    wide = Span(0, 2 * far)
    assert [p[:2] for p in parts(["In", "offset", [far, 3, 5, None]], span=wide)] == [
        (3, 6),
        (far, far + 1),
    ]
    edge = 3 + GAP_OFFSETS
    assert [p[:2] for p in parts(["In", "offset", [3, edge]], span=wide)] == [(3, edge + 1)]
    assert len(parts(["In", "offset", [3, edge + 1]], span=wide)) == 2


def test_many_values_become_one_range():
    many = [4 * GAP_OFFSETS * i for i in range(1, BOXES_MAX + 2)]
    wide = Span(0, 2 * many[-1])
    assert [p[:2] for p in parts(["In", "offset", many], span=wide)] == [(many[0], many[-1] + 1)]
    assert len(parts(["In", "offset", many[1:]], span=wide)) == BOXES_MAX
    assert [p[:2] for p in parts(["Not", ["In", "offset", many], None], span=wide)] == [wide]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (["GreaterThanOrEqual", "timestamp", {"us": 5000}], (5, None)),
        (["GreaterThan", "timestamp", {"us": 5000}], (6, None)),
        (["LessThanOrEqual", "timestamp", {"us": 5999}], (None, 5)),
        (["LessThan", "timestamp", {"us": 5000}], (None, 4)),
        (["EqualTo", "timestamp", {"us": 5000}], (5, 5)),
        (["Not", ["LessThan", "timestamp", {"us": -1500}], None], (-1, None)),
        (["IsNull", "timestamp"], (None, None)),
        (["EqualNullSafe", "timestamp", None], (None, None)),
        (["GreaterThan", "timestamp", 5], (None, None)),
    ],
)
def test_times_have_bounds_in_milliseconds(tree, expected):
    assert parts(tree) == [Part(0, 100, *expected)]


def test_alternatives_have_bounds_of_their_own():
    one = ["And", ["EqualTo", "topic", "a"], ["LessThan", "offset", 5]]
    other = ["And", ["EqualTo", "topic", "b"], ["GreaterThan", "timestamp", {"us": 9999}]]
    either = ["Or", one, other]
    assert parts(either) == [Part(0, 5)]
    assert parts(either, key=B0) == [Part(0, 100, 10)]
    assert parts(either, key=TopicPartition("c", 0)) == []


def test_batches_are_bounded_by_their_own_columns():
    assert parts(["LessThan", "last_offset", 5], level="batches") == [Part(0, 5)]
    assert parts(["GreaterThan", "base_offset", 5], level="batches") == [Part(6, 100)]
    assert parts(["LessThan", "base_offset", 5], level="batches") == [Part(0, 100)]
    for name, expected in (("GreaterThan", 6), ("LessThan", None)):
        found = parts([name, "max_timestamp", {"us": 5000}], level="batches")
        assert found == [Part(0, 100, expected)]
    assert parts(["LessThan", "base_offset", 5], level="segments") == [Part(0, 100)]


# --- the naive twin evaluates the condition for each row, as SQL does ---

SIMPLE = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
NUMBERS = st.integers(-2, 8)
VALUES = {
    "topic": st.sampled_from("abc"),
    "partition": NUMBERS,
    "offset": NUMBERS,
    "timestamp": st.builds(lambda us: {"us": us}, st.integers(-2000, 8000)),
    "value": NUMBERS,
}


def leaves(values):
    def of(column):
        value = values[column]
        return st.one_of(
            st.tuples(st.sampled_from([*SIMPLE, "EqualNullSafe"]), st.just(column), value),
            st.tuples(st.just("In"), st.just(column), st.lists(st.one_of(value, st.none()))),
            st.tuples(st.sampled_from(["IsNull", "IsNotNull"]), st.just(column)),
        )

    return st.sampled_from(sorted(values)).flatmap(of)


TREES = st.recursive(
    st.one_of(leaves(VALUES), st.none()),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["And", "Or"]), inner, inner),
        st.tuples(st.just("Not"), inner, st.none()),
    ),
    max_leaves=8,
)
UNKNOWN = "unknown to the reader"


def truth(tree, row):
    """Returns True, False, None (null), or UNKNOWN if any of these three is possible."""
    if tree is None:
        return UNKNOWN
    name, column, *operands = tree
    if name == "Not":
        inner = truth(column, row)
        return inner if inner in (None, UNKNOWN) else not inner
    if name in ("And", "Or"):
        sides = {truth(column, row), truth(operands[0], row)}
        decisive = name == "Or"
        if decisive in sides:
            return decisive
        return UNKNOWN if UNKNOWN in sides else None if None in sides else not decisive
    cell = row[column]
    if name in ("IsNull", "IsNotNull"):
        return (cell is None) == (name == "IsNull")
    values = [v["us"] if isinstance(v, dict) else v for v in operands[0]] if name == "In" else []
    if name == "In":
        if cell is None or (cell not in values and None in values):
            return None
        return cell in values
    value = operands[0]["us"] if isinstance(operands[0], dict) else operands[0]
    if name == "EqualNullSafe":
        return cell == value
    return None if cell is None else SIMPLE[name](cell, value)


ROWS = st.builds(
    lambda topic, partition, offset, ms, value: {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": None if ms is None else ms * 1000,
        "value": value,
    },
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(-2, 8)),
    st.one_of(st.none(), NUMBERS),
)


@given(st.lists(TREES, max_size=3), ROWS)
def test_no_row_that_may_match_is_omitted(trees, row):
    key = TopicPartition(row["topic"], row["partition"])
    conditions = Conditions.parse(json.dumps(trees), "records")
    ms = 1 << 60 if row["timestamp"] is None else row["timestamp"] // 1000
    holding = [
        part
        for part in conditions.parts(key, Span(0, 7))
        if part.start <= row["offset"] < part.end
        and (part.min_ms is None or part.min_ms <= ms)
        and (part.max_ms is None or ms <= part.max_ms)
    ]
    if all(truth(tree, row) in (True, UNKNOWN) for tree in trees):
        assert len(holding) == 1
        assert conditions.admits(key)


def is_known(tree):
    if tree is None or tree[0] in ("And", "Or", "Not"):
        sides = tree[1 : 2 if tree[0] == "Not" else 3] if tree else [None]
        return tree is not None and all(map(is_known, sides))
    return (
        tree[1] != "value"
        and "Null" not in tree[0]
        and None not in (tree[2] if tree[0] == "In" else [])
    )


@given(TREES, ROWS)
def test_known_conditions_are_used_fully(tree, row):
    """If there are no nulls and no unknown values, a row is read only if it matches."""
    if row["timestamp"] is None or not is_known(tree):
        return
    key, offset, ms = (
        TopicPartition(row["topic"], row["partition"]),
        row["offset"],
        row["timestamp"] // 1000,
    )
    boxes = Conditions.parse(json.dumps([tree]), "records").boxes(key)
    inside = any(
        box.offsets.low <= offset <= box.offsets.high
        and box.times.low <= ms * 1000 <= box.times.high
        for box in boxes
    )
    assert inside == truth(tree, row)
