"""Draws Avro schemas together with matching values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

_TIMES = st.integers(-(2**51), 2**52).map(
    lambda micros: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
)
_TO_MILLIS = _TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))

SIMPLE = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=8)),
    ("string", st.text(max_size=8)),
    ({"type": "long", "logicalType": "timestamp-micros"}, _TIMES),
    ({"type": "long", "logicalType": "timestamp-millis"}, _TO_MILLIS),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-2)),
    ),
]


@st.composite
def schemas_with_values(draw, depth=3):
    """Draws a schema and a strategy of its values. Names of records and enums are numbered, so they are unique."""
    numbers = iter(range(1_000_000))
    return _drawn(draw, depth, numbers)


def _drawn(draw, depth, numbers):
    kind = draw(
        st.sampled_from(
            ["simple", "record", "array", "map", "optional", "enum"] if depth else ["simple"]
        )
    )
    if kind == "simple":
        return draw(st.sampled_from(SIMPLE))
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": f"E{next(numbers)}", "symbols": symbols}, st.sampled_from(
            symbols
        )
    if kind == "record":
        fields = [_drawn(draw, depth - 1, numbers) for _ in range(draw(st.integers(0, 3)))]
        record = {
            "type": "record",
            "name": f"R{next(numbers)}",
            "namespace": "tests",
            "fields": [{"name": f"f{at}", "type": schema} for at, (schema, _) in enumerate(fields)],
        }
        return record, st.fixed_dictionaries(
            {f"f{at}": values for at, (_, values) in enumerate(fields)}
        )
    inner, values = _drawn(draw, depth - 1, numbers)
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(
            st.text(max_size=4), values, max_size=3
        )
    if inner == "null":
        return inner, values
    return ["null", inner], st.one_of(st.none(), values)
