"""Avro from JSON: the same bytes as fastavro's, for every value that is unambiguous in JSON."""

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.wire.values.avro_strategies import schemas_with_values
from tests.wire.values.test_avro import NODE, record, written
from trimaran.wire.values.avro import SCALE_MAX, avro_schema
from trimaran.wire.values.avro_writing import avro_bytes
from trimaran.wire.values.failures import UnencodedValue, UnusableSchema
from trimaran.wire.values.json_form import as_json


def of_json(schema, value):
    return avro_bytes(avro_schema(json.dumps(schema)), json.loads(json.dumps(value)))


@given(st.data())
def test_json_form_is_written_as_value_was(data):
    schema, values = data.draw(schemas_with_values())
    value = data.draw(values)
    try:
        parsed = avro_schema(json.dumps(schema))
    except UnusableSchema:  # an array of items without bytes
        reject()
    form = json.loads(json.dumps(as_json(value)))
    made = avro_bytes(parsed, form)
    assert parsed.decode(memoryview(made)) == value
    assert made == written(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            dt.datetime.fromisoformat("2026-01-02T03:04"),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            dt.datetime.fromisoformat("1969-01-02T03:04"),
        ),
        ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4)),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000)),
        ("float", float("inf")),
        (
            {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 9},
            Decimal(-5),
        ),
        ({"type": "fixed", "name": "F", "size": 2}, b"\0\xff"),
    ],
)
def test_types_outside_strategies_are_written(schema, value):
    assert of_json(schema, as_json(value)) == written(schema, value)


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 256, -256, 32767, -32769])
def test_decimal_takes_fewest_bytes(number):
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}
    value = Decimal(number).scaleb(-1)
    made = of_json(schema, str(value))
    least = next(n for n in range(1, 9) if -(1 << 8 * n - 1) <= number < 1 << 8 * n - 1)
    assert made == bytes([2 * least]) + number.to_bytes(least, "big", signed=True)
    assert avro_schema(json.dumps(schema)).decode(memoryview(made)) == value


@pytest.mark.parametrize(
    ("text", "unscaled"),
    [
        ("5", 500),
        ("5.1", 510),
        ("5.12", 512),
        ("-5.12", -512),
        ("1e1", 1000),
        ("-0.01", -1),
        (f"0e{SCALE_MAX}", 0),
    ],
)
def test_decimal_is_written_at_the_scale(text, unscaled):
    kind = {"logicalType": "decimal", "precision": 9, "scale": 2}
    made = of_json({"type": "bytes", **kind}, text)
    assert int.from_bytes(made[1:], "big", signed=True) == unscaled
    fixed = of_json({"type": "fixed", "name": "F", "size": 4, **kind}, text)
    assert fixed == unscaled.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize("text", ["0.001", "1e-3", f"1e{SCALE_MAX + 1}", "sNaN", "Infinity", "x"])
def test_decimal_beyond_the_scale_is_refused(text):
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    with pytest.raises(UnencodedValue, match="a decimal as text"):
        of_json(schema, text)


def test_first_matching_branch_is_written():
    union = ["null", "long", "string", record("R", "long"), record("S", "string")]
    rows = [(None, 0), (5, 1), ("x", 2), ({"f0": 5}, 3), ({"f0": "x"}, 4)]
    assert [of_json(union, value)[0] for value, _ in rows] == [2 * branch for _, branch in rows]


def test_missing_fields_take_their_defaults():
    fields = [
        {"name": "a", "type": "bytes", "default": "\u00ff"},
        {"name": "b", "type": ["null", "long"], "default": None},
        {"name": "c", "type": "int", "default": 3},
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": [1]},
        {"name": "e", "type": {"type": "int", "logicalType": "date"}, "default": 2},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 1}, "default": "\u00fe"},
    ]
    made = of_json({"type": "record", "name": "R", "fields": fields}, {})
    assert made == b"\x02\xff\x00\x06\x02\x02\x00\x04\xfe"


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("int", 2**31, "the value is '2147483648', and its schema wants an integer of 32 bits"),
        ("long", 2**63, "an integer of 64 bits"),
        ("int", True, "an integer"),
        ("int", 1.5, "an integer"),
        ("float", "1", "a number"),
        ("float", 1e300, "a number of its size"),
        ("double", True, "a number"),
        ("boolean", 1, "true or false"),
        ("string", 1, "a string"),
        ("string", "\ud800", "a string of Unicode"),
        ("bytes", "=", "bytes in base64"),
        ("bytes", 5, "bytes in base64"),
        ("null", 0, "null"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "one of A"),
        ({"type": "fixed", "name": "F", "size": 2}, "AA==", "2 bytes in base64"),
        ({"type": "array", "items": "int"}, {}, "a list"),
        ({"type": "array", "items": "int"}, [1, "x"], r"the value\[1\] is 'x'"),
        ({"type": "map", "values": "int"}, [], "an object"),
        ({"type": "map", "values": "int"}, {"a": None}, "the value.a is"),
        (record("R", "int"), {"f0": "x"}, "the value.f0 is 'x'"),
        (record("R", "int"), {}, "the value.f0 is missing"),
        (record("R", "int"), {"f0": 1, "g": 2}, "has the field 'g'"),
        (["null", "int"], "x", "the value is 'x', and its schema wants an integer"),
        (["int", "boolean"], "x", "fits no branch"),
        ({"type": "int", "logicalType": "date"}, "soon", "a date as text"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2026-01-01T00:00", "as text"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "2026-01-01T00:00Z", "as text"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
            "0.25",
            "a decimal as text",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "NaN", "a decimal as text"),
    ],
)
def test_value_that_does_not_fit_names_its_place(schema, value, why):
    with pytest.raises(UnencodedValue, match=why):
        of_json(schema, value)


def test_deeply_nested_value_is_refused():
    value = None
    for number in range(5_000):
        value = {"number": number, "next": value}
    with pytest.raises(UnencodedValue, match="nested too deeply"):
        avro_bytes(avro_schema(json.dumps(NODE)), value)
