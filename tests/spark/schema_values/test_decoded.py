"""Columns decoded by a real Spark, with a registry that speaks HTTP: types, bad values, headers, keys, local files."""

from __future__ import annotations

import json
import struct
import uuid

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import trimaran.spark as ts
from tests.wire.values.naive_registry import naive_registry
from trimaran.spark.schema_values.decoded import Decoding, RegistryAccess
from trimaran.wire.values.avro import avro_schema
from trimaran.wire.values.decoder import JsonSchema, parsed_schema
from trimaran.wire.values.failures import RegistryFailure, UndecodedValue, UnusableSchema
from trimaran.wire.values.protobuf import protobuf_schema

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "buyer", "type": "string", "default": "unknown"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
    ],
}
ROWS = "key binary, value binary, topic string, partition int, offset bigint"
HEADERS = "headers array<struct<key:string,value:binary>>"


@pytest.fixture
def served():
    with naive_registry() as registry:
        registry.register("orders-value", OLD)
        registry.register("orders-value", NEW)
        yield registry


def framed(number, payload):
    return bytearray(struct.pack(">bI", 0, number) + payload)


def batch(decoding, values, **inputs):
    made = decoding.columns(
        pa.array(values, pa.binary()),
        {name: pa.array([part]) for name, part in inputs.items()},
    )
    return [(row["value"], row["error"]) for row in made.to_pylist()]


@pytest.mark.spark
@pytest.mark.slow
def test_values_are_columns_of_the_latest_schema(spark, served):
    values = [
        framed(1, b"\x02"),
        framed(2, b"\x04\x02x\x02\x02"),
        None,
        bytearray(b"junk"),
        framed(7, b""),
    ]
    rows = [(bytearray(b"k"), value, "orders", 0, at) for at, value in enumerate(values)]
    frame = spark.createDataFrame(rows, ROWS)
    found = ts.decoded(frame, registry=served.url, subject="orders-value", on_error="null")
    assert found.columns == [*frame.columns, "value_error"]
    rows = found.selectExpr(
        "value.id", "value.buyer", "CAST(value.at AS STRING) AS at", "value_error AS error"
    ).collect()
    assert [tuple(row)[:3] for row in rows[:3]] == [
        (1, "unknown", None),
        (2, "x", "1970-01-01 00:00:00.001"),
        (None, None, None),
    ]
    assert [bool(row.error) for row in rows] == [False, False, False, True, True]
    assert f"id 7: {served.url}/schemas/ids/7 answers 404" in rows[4].error
    with pytest.raises(PySparkException) as failed:
        ts.decoded(frame, registry=served.url).collect()
    assert "topic orders, partition 0, offset 3: the value does not begin" in str(failed.value)


@pytest.mark.spark
@pytest.mark.slow
def test_headers_and_keys_are_decoded(spark, served):
    guid = uuid.UUID(served.schemas[0]["guid"])
    headers = [("__key_schema_id", bytearray(b"\x01" + guid.bytes))]
    frame = spark.createDataFrame(
        [(bytearray(b"\x0e"), None, "t", 0, 0, headers)], f"{ROWS}, {HEADERS}"
    )
    assert json.loads(ts.decoded(frame, "key", registry=served.url).first().key) == {"id": 7}


def test_local_schemas_need_no_registry(tmp_path):
    decoding = Decoding(None, avro_schema(json.dumps(OLD)), "", is_key=False, fails=False)
    assert batch(decoding, [b"\x02", None]) == [({"id": 1}, None), (None, None)]
    ((value, error),) = batch(decoding, [b""])
    assert value is None
    assert "no value of its Avro schema" in error


def test_values_that_arrow_refuses_are_errors():
    content = {"type": "object", "properties": {"n": {"type": "integer"}}}
    decoding = Decoding(None, JsonSchema(content), "", is_key=False, fails=False)
    found = batch(decoding, [b'{"n": 1}', b'{"n": 99999999999999999999}', b'{"n": "x"}', b"null"])
    assert [value for value, _ in found] == [{"n": 1}, None, None, None]
    assert [bool(error) for _, error in found] == [False, True, True, False]
    assert "does not fit into the column" in found[1][1]


def test_first_bad_value_is_named_with_its_place():
    decoding = Decoding(None, JsonSchema({}), "", is_key=False, fails=True)
    assert batch(decoding, [b"{}"]) == [("{}", None)]
    with pytest.raises(
        UndecodedValue,
        match=r'topic t, partition 3, offset 9: the value is no JSON.*on_error="null"',
    ):
        batch(decoding, [b"{"], topic="t", partition=3, offset=9)
    with pytest.raises(UndecodedValue, match=r"^partition 3, offset 9: the value is no JSON"):
        batch(decoding, [b"{"], partition=3, offset=9)
    with pytest.raises(UndecodedValue, match=r"^a record: "):
        batch(decoding, [b"{"])


@pytest.mark.parametrize(
    ("access", "fails", "inputs"),
    [
        (None, False, []),
        (None, True, ["topic", "partition", "offset"]),
        (RegistryAccess("http://x"), False, ["headers"]),
        (RegistryAccess("http://x"), True, ["headers", "topic", "partition", "offset"]),
    ],
)
def test_inputs_are_those_that_are_used(access, fails, inputs):
    decoding = Decoding(access, None, "", is_key=False, fails=fails)
    assert decoding.inputs(["value", "offset", "headers", "partition", "topic"]) == inputs
    assert decoding.inputs(["value", "offset"]) == [name for name in inputs if name == "offset"]


@pytest.mark.parametrize("is_key", [False, True])
def test_id_in_headers_is_read_with_its_row(served, is_key):
    part = "key" if is_key else "value"
    guid = uuid.UUID(served.schemas[0]["guid"]).bytes
    headers = [{"key": f"__{part}_schema_id", "value": b"\1" + guid}, {"key": "x", "value": None}]
    decoding = Decoding(RegistryAccess(served.url), None, "", is_key=is_key, fails=False)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for given, found in ((headers, '{"id": 1}'), ([], None), (None, None)):
        rows = decoding.columns(
            pa.array([b"\2", None], pa.binary()), {"headers": pa.array([given, None], kind)}
        ).to_pylist()
        assert (rows[0]["value"], rows[1]) == (found, {"value": None, "error": None})
        assert (rows[0]["error"] is None) == (found is not None)


def test_values_have_the_type_of_a_subject(served):
    access = RegistryAccess(served.url)
    decoding = Decoding(
        access, parsed_schema(access.client().latest("orders-value")), "", False, False
    )
    expected = {"id": 1, "buyer": "unknown", "at": None}
    assert batch(decoding, [framed(1, b"\2")]) == [(expected, None)]
    assert batch(decoding, [framed(2, b"\4\2x\0")]) == [({**expected, "id": 2, "buyer": "x"}, None)]
    ((value, error),) = batch(Decoding(None, None, "", False, False), [b"x"])
    assert value is None
    assert error == "neither a registry nor a schema is given"


def test_message_of_a_local_schema_is_named():
    text = 'syntax = "proto3"; message A { int32 a = 1; } message B { string b = 1; }'
    decoding = Decoding(None, protobuf_schema(text, {}), "B", is_key=False, fails=False)
    assert batch(decoding, [b"\n\1x"]) == [({"b": "x"}, None)]


def test_failed_registries_fail_each_query():
    access = RegistryAccess("http://localhost:1", password="secret")
    with pytest.raises(RegistryFailure, match="no registry listens"):
        batch(Decoding(access, None, "", is_key=False, fails=False), [bytes(6)])
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give the URL of a registry"),
        ({"registry": "http://x", "subject": "a", "schema": "b"}, "give one of them"),
        ({"schema": "x.txt"}, "no schema by its name"),
        ({"registry": "http://x", "ids": "global"}, "can be 'globalId' or 'contentId'"),
        ({"registry": "x", "subject": "a", "ids": "globalId"}, "no URL of a registry"),
        ({"schema": "absent.json", "on_error": "null"}, "absent.json"),
        ({"subject": "a"}, "give the URL of a registry"),
        ({"registry": "http://x", "on_error": "drop"}, "can be 'fail' or 'null'"),
        ({"registry": "x", "subject": "a"}, "no URL of a registry"),
    ],
)
def test_contradicting_options_are_refused(options, told):
    with pytest.raises((ValueError, RegistryFailure, FileNotFoundError), match=told):
        ts.decoded(None, **options)


@pytest.mark.spark
@pytest.mark.slow
def test_column_that_is_not_binary_is_refused(spark):
    """Spark ignores letter case, and finds fields in structs; no column of the frame would be decoded."""
    frame = spark.createDataFrame([], f"{ROWS}, inside struct<value:binary>, `a.b` binary")
    local = {"registry": "http://localhost:1"}
    for column in ("Value", "inside.value", "other"):
        with pytest.raises(ValueError, match=f"there is no column '{column}'; there are key, val"):
            ts.decoded(frame, column, **local)
    with pytest.raises(ValueError, match="column topic is of type string, and values by schemas"):
        ts.decoded(frame, "topic", **local)
    assert dict(ts.decoded(frame, "a.b", **local).dtypes)["a.b"] == "string"


def test_unknown_subjects_are_refused(served):
    with pytest.raises(UnusableSchema, match=r"answers 404 \(Subject not found"):
        ts.decoded(None, registry=served.url, subject="order-value")
