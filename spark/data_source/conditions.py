"""Conditions of a query that reduce the data to read: on topic, partition, offset and time, in any combination.

`ScanRule.java` passes the conditions, and Spark applies them again. Therefore the result here may include records that
do not match, but never lacks one that does: a condition that only Spark can evaluate counts as true. For one partition
its topic and number are known, and the rest of the conditions becomes `Part`s: offsets and times that may match.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from trimaran.spark.origins.origin import Part, Span
from trimaran.wire.identity import Offset, TopicPartition

# The key in the metadata of a schema's first field; see ScanRule.java.
METADATA = "trimaran.conditions"
# The maximum number of alternatives for one partition: more are replaced by the smallest range that contains them. An
# `IN` may have thousands.
BOXES_MAX = 256
# Gaps of up to this number of offsets between two parts are read, too: each part costs a search in the index, and some
# planning.
GAP_OFFSETS = 1000
LEAST, MOST = -(1 << 70), 1 << 70  # outside of all offsets and times


class Interval(NamedTuple):
    """The integers from `low` to `high`, both included."""

    low: int = LEAST
    high: int = MOST

    def meet(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def hull(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))


ANY = Interval()


class Box(NamedTuple):
    """Records with these offsets and times (microseconds)."""

    offsets: Interval = ANY
    times: Interval = ANY


Boxes = Sequence[Box]  # an alternative each: none means that no record matches
ALL: Boxes = (Box(),)
NONE: Boxes = ()


class Axis(NamedTuple):
    """How a column restricts offsets or times. `at_least` means that only its lower bound restricts them."""

    of_times: bool = False
    at_least: bool = False

    def box(self, values: Interval) -> Box:
        kept = Interval(values.low) if self.at_least else values
        return Box(times=kept) if self.of_times else Box(offsets=kept)


Axes = Mapping[str, Axis]
# by level, in lower case, since Spark keeps the letters that the user wrote
RECORD_AXES: Axes = {"offset": Axis(), "timestamp": Axis(of_times=True)}
AXES: Mapping[str, Axes] = {
    "records": RECORD_AXES,
    "batches": {
        "last_offset": Axis(),
        "base_offset": Axis(at_least=True),
        "max_timestamp": Axis(of_times=True, at_least=True),
    },
    "segments": {},
}
OF_DECODED: Axes = {"offset": Axis()}  # their column `topic` is not that of the log


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions above a scan, all of which hold.

    Args:
        trees: nested lists of operators and operands; see `ScanRule.java`.
        axes: the columns that restrict offsets and times.
        has_topic: the column `topic` is the topic of the log.
    """

    trees: tuple[Any, ...] = ()
    axes: Axes = field(default_factory=dict)
    has_topic: bool = True

    @classmethod
    def parse(cls, text: str, level: str) -> Conditions:
        return cls(tuple(json.loads(text)), AXES.get(level, OF_DECODED), level in AXES)

    def admits(self, key: TopicPartition) -> bool:
        """Whether the partition may have matching records."""
        return bool(self.boxes(key))

    def boxes(self, key: TopicPartition) -> Boxes:
        found = ALL
        for tree in self.trees:
            found = _both(found, self._of(tree, key, holds=True))
        return found

    def parts(self, key: TopicPartition, span: Span) -> list[Part]:
        """Returns disjoint parts of the span, ascending, that have all records that may match."""
        within = Interval(span.start, span.end - 1)
        boxes = sorted(
            Box(offsets, box.times)
            for box in self.boxes(key)
            if (offsets := box.offsets.meet(within)).low <= offsets.high
        )
        joined: list[Box] = []
        for box in boxes:
            if joined and box.offsets.low <= joined[-1].offsets.high + GAP_OFFSETS:
                joined[-1] = _hull(joined[-1], box)
            else:
                joined.append(box)
        return [
            Part(
                Offset(offsets.low),
                Offset(offsets.high + 1),
                None if times.low == LEAST else -(-times.low // 1000),
                None if times.high == MOST else times.high // 1000,
            )
            for offsets, times in joined
        ]

    def _of(self, tree: Any, key: TopicPartition, *, holds: bool) -> Boxes:
        """Returns the records for which the condition may be true, or false if not `holds`."""
        match tree:
            case ["Not", inner, *_]:
                return self._of(inner, key, holds=not holds)
            case ["And" | "Or" as name, left, right]:
                one, other = (self._of(side, key, holds=holds) for side in (left, right))
                return _both(one, other) if (name == "And") == holds else _either(one, other)
            case [str(name), str(column), *operands]:
                return self._leaf(name, column.lower(), operands, key, holds=holds)
            case _:
                return ALL

    def _leaf(
        self, name: str, column: str, operands: list[Any], key: TopicPartition, *, holds: bool
    ) -> Boxes:
        if column == "partition" or (column == "topic" and self.has_topic):
            value = key.topic if column == "topic" else key.partition
            known = _evaluated(name, value, operands)
            return ALL if known is None or known == holds else NONE
        axis = self.axes.get(column)
        if axis is None:
            return ALL
        values = _intervals(name, operands, of_times=axis.of_times)
        if values is None or len(values) > BOXES_MAX:
            # A list of values that is too long still has a least and a largest one.
            if values is None or not holds:
                return ALL
            values = [Interval(values[0].low, values[-1].high)]
        return [axis.box(one) for one in (values if holds else _others(values))]


NO_CONDITIONS = Conditions()


def _both(one: Boxes, other: Boxes) -> Boxes:
    if one == ALL or other == NONE:
        return other
    if other == ALL or one == NONE:
        return one
    if len(one) * len(other) > BOXES_MAX:
        one, other = [_hull(*one)], [_hull(*other)]
    met = [Box(a.offsets.meet(b.offsets), a.times.meet(b.times)) for a in one for b in other]
    return [box for box in met if all(low <= high for low, high in box)]


def _either(one: Boxes, other: Boxes) -> Boxes:
    found = [*one, *other]
    return [_hull(*found)] if len(found) > BOXES_MAX else found


def _hull(*boxes: Box) -> Box:
    """Returns the smallest box that contains all of the boxes."""
    offsets, times = boxes[0]
    for box in boxes[1:]:
        offsets, times = offsets.hull(box.offsets), times.hull(box.times)
    return Box(offsets, times)


def _others(values: list[Interval]) -> Iterator[Interval]:
    """Yields the integers that are in none of the ascending intervals."""
    edges = [Interval(LEAST, LEAST), *values, Interval(MOST, MOST)]
    for before, after in pairwise(edges):
        low = before.high + 1 if before.high > LEAST else LEAST
        high = after.low - 1 if after.low < MOST else MOST
        if low <= high and before.high < MOST:
            yield Interval(low, high)


def _intervals(name: str, operands: list[Any], *, of_times: bool) -> list[Interval] | None:
    """Returns the values for which a comparison is true, ascending and disjoint; None if that is unknown.

    A column of times may be null, a column of offsets never is.
    """
    if name == "IsNull":
        return None if of_times else []
    given = operands[0] if operands else None
    if name == "In" and isinstance(given, list):
        numbers = [_number(value, of_times=of_times) for value in given if value is not None]
        if any(number is None for number in numbers):
            return None
        return [Interval(n, n) for n in sorted({n for n in numbers if n is not None})]
    number = _number(given, of_times=of_times)
    if number is None:
        return None
    match name:
        case "EqualTo" | "EqualNullSafe":
            return [Interval(number, number)]
        case "GreaterThan":
            return [Interval(number + 1)]
        case "GreaterThanOrEqual":
            return [Interval(number)]
        case "LessThan":
            return [Interval(high=number - 1)]
        case "LessThanOrEqual":
            return [Interval(high=number)]
        case _:
            return None


def _number(value: Any, *, of_times: bool) -> int | None:
    if of_times:
        value = value.get("us") if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda a, b: a == b,
    "EqualNullSafe": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "StringStartsWith": lambda a, b: a.startswith(b),
    "StringEndsWith": lambda a, b: a.endswith(b),
    "StringContains": lambda a, b: b in a,
}


def _evaluated(name: str, value: str | int, operands: list[Any]) -> bool | None:
    """Returns the truth of a comparison with a topic or a partition, which is never null; None if that is unknown.

    Topics have letters of ASCII only, so that Python's order is Spark's.
    """
    if name in ("IsNull", "IsNotNull"):
        return name == "IsNotNull"
    given = operands[0] if operands else None
    if name == "In" and isinstance(given, list):
        if value in given:
            return True
        return (
            None if None in given or any(type(one) is not type(value) for one in given) else False
        )
    if name not in COMPARISONS or type(given) is not type(value):
        return None
    return COMPARISONS[name](value, given)
