"""Avro: what fastavro writes is read; other bytes are refused, without using more time, memory or stack."""

from __future__ import annotations

import io
import json
import pickle
from decimal import Decimal

import fastavro
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from tests.wire.values.avro_strategies import schemas_with_values
from trimaran.wire.later import imported_later
from trimaran.wire.values import avro
from trimaran.wire.values.avro import DECIMAL_BYTES_MAX, SCALE_MAX, avro_schema
from trimaran.wire.values.avro_shape import FREE_VALUES_MAX, NESTING_MAX
from trimaran.wire.values.failures import UndecodedValue, UnusableSchema

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "number", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def written(schema, value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return memoryview(stream.getvalue())


def record(name, *types):
    fields = [{"name": f"f{at}", "type": each} for at, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


@given(st.data())
def test_written_values_are_read(data):
    schema, values = data.draw(schemas_with_values())
    value = data.draw(values)
    try:
        parsed = avro_schema(json.dumps(schema))
    except UnusableSchema:  # an array of items without bytes
        reject()
    assert parsed.decode(written(schema, value)) == value


@given(st.data(), st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(data, payload):
    schema, _ = data.draw(schemas_with_values())
    assert_only_raises(
        UndecodedValue, lambda: avro_schema(json.dumps(schema)).decode(memoryview(payload))
    )


def test_recursive_values_are_read_to_bounded_depth():
    schema = avro_schema(json.dumps(NODE))
    value = {"number": 1, "next": {"number": 2, "next": None}}
    assert schema.recursive
    assert schema.decode(written(NODE, value)) == value
    with pytest.raises(UndecodedValue, match="nested too deeply"):
        schema.decode(memoryview(b"\x02\x02" * 100_000 + b"\x02\x00"))


def test_recursion_is_found_through_references():
    schema = avro_schema(
        json.dumps(record("Top", "a.Tree")),
        [json.dumps({**record("Tree", {"type": "map", "values": "a.Tree"}), "namespace": "a"})],
    )
    assert schema.recursive
    assert schema.decode(memoryview(b"\x02\x02x\x00\x00")) == {"f0": {"f0": {"x": {"f0": {}}}}}
    assert not avro_schema(
        json.dumps(record("union", "int", ["null", record("inner", "int")]))
    ).recursive


@pytest.mark.parametrize(
    "items", ["null", record("Empty"), record("Nulls", "null", record("Inner"))]
)
def test_arrays_of_items_without_bytes_are_refused(items):
    with pytest.raises(UnusableSchema, match="items take no bytes"):
        avro_schema(json.dumps(record("Top", {"type": "array", "items": items})))


def test_exponentially_growing_records_are_refused():
    inner: object = "null"
    for level in range(20):
        inner = record(f"R{level}", inner, f"R{level - 1}" if level else "null")
    with pytest.raises(UnusableSchema, match=f"at most {FREE_VALUES_MAX}"):
        avro_schema(json.dumps(inner))


def test_recursive_record_does_not_count_as_empty():
    most = [*["null"] * (FREE_VALUES_MAX - 1), ["R", "int"]]
    assert avro_schema(json.dumps(record("R", *most))).recursive
    with pytest.raises(UnusableSchema, match=f"at most {FREE_VALUES_MAX}"):
        avro_schema(json.dumps(record("R", "null", *most)))


def test_deep_schemas_are_refused():
    schema: object = "int"
    for _ in range(NESTING_MAX + 1):
        schema = {"type": "array", "items": schema}
    with pytest.raises(UnusableSchema, match=f"more than {NESTING_MAX} types"):
        avro_schema(json.dumps(schema))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[",
            "5",
            '"Unknown"',
            "[" * 5000,
            '{"type":"enum","name":"e"}',
            '{"type":{"type":{}}}',
        ),
        *('{"type":{"type":"int"}}', '{"type":["null","int"]}', '{"type":"Unknown"}', "{}"),
    ],
)
def test_malformed_schemas_are_refused(text):
    with pytest.raises(UnusableSchema, match="no Avro schema that can be used"):
        avro_schema(text)


def test_large_decimals_are_refused():
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 2_000, "scale": 3}
    parsed = avro_schema(json.dumps(schema))
    assert parsed.decode(written("bytes", b"\xff\x00")) == Decimal("-0.256")
    largest = parsed.decode(written("bytes", b"\x7f" + b"\xff" * (DECIMAL_BYTES_MAX - 1)))
    assert f"{largest:f}".replace(".", "") == str(2 ** (8 * DECIMAL_BYTES_MAX - 1) - 1)
    with pytest.raises(UndecodedValue, match=f"at most {DECIMAL_BYTES_MAX} are read"):
        parsed.decode(written("bytes", b"\x01" * (DECIMAL_BYTES_MAX + 1)))
    with pytest.raises(UnusableSchema, match=f"at most {SCALE_MAX}"):
        avro_schema(json.dumps({**schema, "scale": SCALE_MAX + 1}))


@pytest.mark.parametrize(
    ("around", "before"),
    [
        (lambda of: of, b""),
        (lambda of: ["null", of], b"\x02"),
        (lambda of: {"type": "array", "items": of}, b"\x02"),
        (lambda of: {"type": "map", "values": of}, b"\x02\x02k"),
        (lambda of: record("R", of), b""),
        (lambda of: record("R", ["null", of]), b"\x02"),
        (lambda of: {"type": "array", "items": record("R", of)}, b"\x02"),
    ],
    ids=["alone", "union", "array", "map", "record", "union in a record", "records"],
)
def test_large_decimal_is_refused_at_any_place(around, before):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 2_000, "scale": 3}
    large = bytes(written("bytes", b"\x01" * (DECIMAL_BYTES_MAX + 1)))
    with pytest.raises(UndecodedValue, match=f"at most {DECIMAL_BYTES_MAX} are read"):
        avro_schema(json.dumps(around(decimal))).decode(memoryview(before + large))
    with pytest.raises(UnusableSchema, match=f"at most {SCALE_MAX}"):
        avro_schema(json.dumps(around({**decimal, "scale": -1})))


def test_fixed_decimals_are_read():
    schema = {
        "type": "fixed",
        "name": "F",
        "size": 2,
        "logicalType": "decimal",
        "precision": 4,
        "scale": 1,
    }
    assert avro_schema(json.dumps(schema)).decode(memoryview(b"\x00\x0f")) == Decimal("1.5")


def test_values_of_another_schema_are_refused():
    with pytest.raises(UndecodedValue, match="1 of 2 bytes are left"):
        avro_schema('"int"').decode(memoryview(b"\x02\x02"))
    with pytest.raises(UndecodedValue, match="no value of its Avro schema"):
        avro_schema('{"type":"long","logicalType":"timestamp-millis"}').decode(
            written("long", 2**62)
        )


def test_reader_schema_resolves_fields():
    old = avro_schema(json.dumps(record("R", "int", "string")))
    fields = [
        {"name": "f0", "type": "long"},
        {"name": "added", "type": "string", "default": "none"},
        {"name": "renamed", "aliases": ["f1"], "type": "string"},
    ]
    new = avro_schema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    payload = written(record("R", "int", "string"), {"f0": 7, "f1": "x"})
    assert old.decode(payload, new) == {"f0": 7, "added": "none", "renamed": "x"}
    with pytest.raises(UndecodedValue, match="SchemaResolutionError"):
        old.decode(payload, avro_schema('"boolean"'))


@pytest.mark.parametrize(
    ("kind", "free"),
    [
        ("null", 1),
        ("int", 0),
        ({"type": "null"}, 1),
        ({"type": "int"}, 0),
        ([], 0),
        (["null"], 1),
        (["null", "int"], 1),
        (["int", "string"], 0),
        (["int", record("Inner", "null", "null")], 3),
        ({"type": "array", "items": "int"}, 0),
        ({"type": "array", "items": ["null", "int"]}, 0),
        ({"type": "map", "values": "null"}, 0),
        ({"type": "map", "values": record("Inner", "null")}, 0),
        ({"type": "fixed", "name": "F", "size": 0}, 1),
        ({"type": "fixed", "name": "F", "size": 1}, 0),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 0),
        ({**record("Inner"), "type": "error"}, 1),
        (record("Inner"), 1),
        (record("Inner", "int", "null", record("Innermost")), 3),
        (record("Inner", {"type": "map", "values": "Inner"}), 1),
    ],
    ids=str,
)
def test_values_without_bytes_are_counted(kind, free):
    nulls = ["null"] * (FREE_VALUES_MAX - 1 - free)
    avro_schema(json.dumps(record("R", *nulls, kind)))
    with pytest.raises(UnusableSchema, match=f"has {FREE_VALUES_MAX + 1} records and nulls"):
        avro_schema(json.dumps(record("R", *nulls, "null", kind)))


@pytest.mark.parametrize(
    ("items", "takes_bytes"),
    [
        ("null", False),
        ({"type": "null"}, False),
        ({"type": "fixed", "name": "F", "size": 0}, False),
        ({"type": "fixed", "name": "F", "size": 1}, True),
        (["null"], True),
        ([], True),
        ({"type": "map", "values": "null"}, True),
        ({"type": "array", "items": "int"}, True),
        (record("Inner", "null", "int"), True),
        (record("Inner", "null", "null"), False),
        (record("Inner", {"type": "map", "values": "Inner"}), True),
    ],
    ids=str,
)
def test_items_of_arrays_count_by_bytes(items, takes_bytes):
    text = json.dumps({"type": "array", "items": items})
    if takes_bytes:
        assert avro_schema(text).decode(memoryview(b"\0")) == []
    else:
        with pytest.raises(UnusableSchema, match="items take no bytes"):
            avro_schema(text)


@pytest.mark.parametrize("depth", [NESTING_MAX, NESTING_MAX + 1])
@pytest.mark.parametrize(
    "around",
    [
        lambda inner, _: {"type": "array", "items": inner},
        lambda inner, _: {"type": "map", "values": inner},
        lambda inner, at: record(f"R{at}", inner),
    ],
    ids=["arrays", "maps", "records"],
)
def test_every_type_counts_towards_nesting(around, depth):
    schema: object = "int"
    for at in range(depth):
        schema = around(schema, at)
    if depth <= NESTING_MAX:
        assert not avro_schema(json.dumps(schema)).recursive
    else:
        with pytest.raises(UnusableSchema, match=f"more than {NESTING_MAX} types"):
            avro_schema(json.dumps(schema))


def test_nested_union_counts_as_a_level():
    schema: object = ["null", "int"]
    for _ in range(NESTING_MAX // 2):
        schema = ["null", {"type": "array", "items": schema}]
    with pytest.raises(UnusableSchema, match=f"more than {NESTING_MAX} types"):
        avro_schema(json.dumps(schema))


def test_record_may_have_the_name_of_a_type():
    schema = record("array", {"type": "array", "items": "int"})
    assert avro_schema(json.dumps(schema)).decode(memoryview(b"\2\2\0")) == {"f0": [1]}


def test_schema_is_pickled_with_its_references():
    references = [json.dumps(record("A", "int")), json.dumps(record("B", "A", ["null", "B"]))]
    schema = avro_schema(json.dumps(record("C", "B", "A")), references)
    copied = pickle.loads(pickle.dumps(schema))
    assert copied == schema
    assert copied.texts == (*references, schema.texts[-1])
    assert copied.recursive
    assert copied.decode(memoryview(b"\2\0\4")) == {
        "f0": {"f0": {"f0": 1}, "f1": None},
        "f1": {"f0": 2},
    }


@pytest.mark.parametrize(
    ("options", "data", "value"),
    [
        ({"precision": 4}, b"\2\x0f", "15"),
        ({"precision": 4, "scale": 0}, b"\2\x0f", "15"),
        ({"precision": 4, "scale": 1}, b"\2\xf1", "-1.5"),
        ({"precision": SCALE_MAX, "scale": SCALE_MAX}, b"\2\1", f"1e-{SCALE_MAX}"),
    ],
)
def test_scale_determines_the_decimal_point(options, data, value):
    schema = avro_schema(json.dumps({"type": "bytes", "logicalType": "decimal", **options}))
    assert schema.decode(memoryview(data)) == Decimal(value)
    assert schema.decode(memoryview(b"\0")) == 0


@pytest.mark.parametrize(
    ("precision", "scale", "told"),
    [
        (None, 0, "precision None and scale 0"),
        (4, "1", "precision 4 and scale '1'"),
        (4, None, "precision 4 and scale None"),
        ("4", 1, "precision '4' and scale 1"),
        (4, -1, "precision 4 and scale -1"),
        (9_999, SCALE_MAX + 1, f"precision 9999 and scale {SCALE_MAX + 1}"),
    ],
)
def test_decimals_without_numbers_are_refused(precision, scale, told):
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    with pytest.raises(UnusableSchema, match=f"a decimal with {told}: both must be integers"):
        avro_schema(json.dumps(schema))
    with pytest.raises(UnusableSchema, match="precision None and scale 0"):
        avro_schema('{"type": "bytes", "logicalType": "decimal"}')


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ({"type": "string", "logicalType": "decimal"}, b"\2x", "x"),
        ({"type": "bytes", "logicalType": "other"}, b"\2x", b"x"),
        ({"type": "bytes", "scale": "x"}, b"\2x", b"x"),
    ],
)
def test_other_logical_types_are_ignored(schema, data, value):
    assert avro_schema(json.dumps(schema)).decode(memoryview(data)) == value


def test_record_keeps_the_rest_of_its_fields():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4}
    field = {"name": "new", "type": decimal, "aliases": ["f0"]}
    new = avro_schema(json.dumps({"type": "record", "name": "R", "fields": [field]}))
    old = avro_schema(json.dumps(record("R", decimal)))
    assert old.decode(memoryview(b"\2\x0f"), new) == {"new": 15}


def test_plain_value_is_read_as_a_recursive_type():
    plain = record("Node", "int", ["null", "int"])
    fields = [
        {"name": "f0", "type": "int"},
        {"name": "next", "type": ["null", "Node"], "default": None},
    ]
    node = avro_schema(json.dumps({"type": "record", "name": "Node", "fields": fields}))
    found = avro_schema(json.dumps(plain)).decode(written(plain, {"f0": 5, "f1": 6}), node)
    assert found == {"f0": 5, "next": None}


def test_missing_avro_package_is_named(monkeypatch):
    monkeypatch.setattr(avro, "fastavro_read", imported_later("absent_library"))
    with pytest.raises(UnusableSchema, match=r"Avro needs absent_library\. .*trimaran\[schemas\]"):
        avro_schema('"int"')
