"""Types of Spark for schemas, and values in the form of these types."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from trimaran.spark.schema_values.column_types import FIELDS_MAX, column_type
from trimaran.wire.values.avro import avro_schema
from trimaran.wire.values.avro_shape import NESTING_MAX
from trimaran.wire.values.decoder import JsonSchema
from trimaran.wire.values.failures import UndecodedValue, UnusableSchema
from trimaran.wire.values.protobuf import protobuf_schema

PROTO = """syntax = "proto3";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Other { string x = 1; }
message Top {
  enum Size { SMALL = 0; }
  int32 a = 1; uint32 b = 2; fixed64 c = 3; float d = 4; double e = 5; bool f = 6; string g = 7; bytes h = 8;
  Size i = 9; repeated Other j = 10; map<string, Other> k = 11; map<bool, int64> l = 12;
  google.protobuf.Timestamp m = 13; google.protobuf.Duration n = 14; google.protobuf.Struct o = 15;
  google.protobuf.BoolValue p = 16; google.protobuf.Value q = 17; Top r = 18;
  google.protobuf.ListValue s = 19; google.protobuf.UInt64Value t = 20; google.protobuf.BytesValue u = 21;
}
"""


def avro(schema):
    return column_type(avro_schema(json.dumps(schema)))


def fields(*types):
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": x} for at, x in enumerate(types)],
    }


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("boolean", "boolean"),
        ("bytes", "binary"),
        ("string", "string"),
        ("null", "string"),
        (["null", "int"], "int"),
        (["null", "int", "long"], "bigint"),
        (["float", "double"], "double"),
        (["int", "string"], "string"),
        (["int", {"type": "map", "values": "int"}], "string"),
        (["null", {"type": "array", "items": "int"}], "array<int>"),
        (["long", "float"], "string"),
        ({"type": "int"}, "int"),
        ({**fields("int"), "type": "error"}, "struct<f0:int>"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 2}, "binary"),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, "array<map<string,int>>"),
        (fields("int", fields("string") | {"name": "S"}), "struct<f0:int,f1:struct<f0:string>>"),
        (fields(["null", "R"], "int"), "struct<f0:string,f1:int>"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "time-millis"}, "string"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "decimal(9,0)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 2}, "decimal(2,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, "decimal(38,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 5}, "string"),
    ],
    ids=str,
)
def test_avro_types_become_spark_types(schema, told):
    assert avro(schema).spark.simpleString() == told


def test_protobuf_types_become_spark_types():
    schema = protobuf_schema(PROTO, {})
    assert column_type(schema, "Top").spark.simpleString() == (
        "struct<a:int,b:bigint,c:decimal(20,0),d:float,e:double,f:boolean,g:string,h:binary,i:string,"
        "j:array<struct<x:string>>,k:map<string,struct<x:string>>,l:map<string,bigint>,m:timestamp,"
        "n:interval day to second,o:string,p:boolean,q:string,r:string,s:string,t:decimal(20,0),u:binary>"
    )
    assert (
        column_type(pickle.loads(pickle.dumps(schema))).spark.simpleString() == "struct<x:string>"
    )


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "string"]}, "string"),
        ({"oneOf": []}, "string"),
        (True, "string"),
        ({"type": "object"}, "string"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "map<string,boolean>"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "integer", "properties": {"a": {}}}, "bigint"),
        ({"type": "integer", "additionalProperties": {"type": "boolean"}}, "bigint"),
        ({"type": "integer", "items": {"type": "boolean"}}, "bigint"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "https://x"}},
                "$defs": {"A": {"type": "object", "properties": {"c": {"$ref": "#/$defs/A"}}}},
            },
            "struct<a:struct<c:string>,b:string>",
        ),
        ({"$ref": "#/absent/part"}, "string"),
        ({"$ref": "#/a/b/c", "a": 5}, "string"),
        ({"$ref": "x/A", "A": {"type": "integer"}}, "string"),
        ({"$ref": "#"}, "string"),
        ({"$ref": 5}, "string"),
        ({"$ref": "#/a~1b/c~0d", "a/b": {"c~d": {"type": "integer"}}}, "bigint"),
        ({"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}, "string"),
        ({"type": []}, "string"),
        ({"type": ["null"]}, "string"),
        ({"type": ["integer"]}, "bigint"),
        ({"type": [["integer"]]}, "string"),
        ({"type": {"type": "integer"}}, "string"),
        ({"type": "object", "properties": {}}, "string"),
        ({"type": "object", "properties": ["a"]}, "string"),
        ({"type": "object", "properties": {}, "additionalProperties": {}}, "map<string,string>"),
        ({"type": "object", "additionalProperties": True}, "string"),
        ({"type": "array"}, "string"),
        ({"type": "array", "items": [{"type": "integer"}]}, "string"),
    ],
    ids=str,
)
def test_json_types_become_spark_types(schema, told):
    assert column_type(JsonSchema(schema)).spark.simpleString() == told


DOUBLINGS = 20
TYPES_IN = {"array": "items", "map": "values"}


def doubled_avro(inside):
    """Returns nested records, each of which contains the next one in two arrays or maps, which may be empty."""
    schema: object = "int"
    for level in range(DOUBLINGS):
        again = f"Level{level - 1}" if level else "int"
        schema = fields(*({"type": inside, TYPES_IN[inside]: each} for each in (schema, again)))
        schema["name"] = f"Level{level}"
    return avro_schema(json.dumps(schema))


def doubled_json():
    parts = {
        f"Level{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/Level{level + 1}"} for name in "ab"},
        }
        for level in range(DOUBLINGS)
    }
    return JsonSchema({"$ref": "#/Level0", **parts})


def nested_protobuf(levels, members):
    """Returns messages each of which has the next one, `{0}`, in these members."""
    texts = [f"message M{at} {{ {members.format(f'M{at + 1}')} }}" for at in range(levels)]
    last = f"message M{levels} {{ string s = 1; }}"
    return protobuf_schema("\n".join(('syntax = "proto3";', *texts, last)), {})


@pytest.mark.parametrize(
    "make",
    [
        lambda: doubled_avro("array"),
        lambda: doubled_avro("map"),
        doubled_json,
        lambda: nested_protobuf(DOUBLINGS, "{0} a = 1; {0} b = 2;"),
        lambda: nested_protobuf(DOUBLINGS, "repeated {0} a = 1; map<string, {0}> b = 2;"),
    ],
)
def test_exponentially_growing_types_are_refused(make):
    with pytest.raises(UnusableSchema, match=f"more than {FIELDS_MAX} fields"):
        column_type(make())


def test_fields_of_all_levels_are_counted():
    inner = fields(*["int"] * (FIELDS_MAX - 2))
    assert avro(fields("int", inner | {"name": "S"})).fields == FIELDS_MAX
    with pytest.raises(UnusableSchema):
        avro(fields("int", "int", inner | {"name": "S"}))


def test_deep_messages_become_json():
    told = column_type(nested_protobuf(6 * NESTING_MAX, "{0} a = 1;")).spark.simpleString()
    levels = NESTING_MAX + 1
    assert told == "struct<a:" * levels + "string" + ">" * levels


def test_deep_json_becomes_text():
    schema: dict = {"type": "integer"}
    for _ in range(6 * NESTING_MAX):
        schema = {"type": "object", "properties": {"a": schema}}
    told = column_type(JsonSchema(schema)).spark.simpleString()
    levels = NESTING_MAX + 1
    assert told == "struct<a:" * levels + "string" + ">" * levels


def test_values_take_the_form_of_arrow():
    kind = avro(
        fields(
            {"type": "array", "items": ["null", "int"]},
            {"type": "map", "values": ["null", "int"]},
            {"type": "long", "logicalType": "timestamp-millis"},
            ["int", "string"],
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            ["null", "R"],
            {"type": "int", "logicalType": "time-millis"},
        )
    )
    time = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    shaped = kind.shaped(
        {
            "f0": [1, None],
            "f1": {"a": None},
            "f2": time,
            "f3": 7,
            "f4": Decimal("1.50"),
            "f5": {"f3": "inner"},
            "f6": dt.time(1, 2, 3),
            "other": "ignored",
        }
    )
    (found,) = pa.array([shaped], to_arrow_type(kind.spark, timezone="UTC")).to_pylist()
    assert found == {
        "f0": [1, None],
        "f1": [("a", None)],
        "f2": time,
        "f3": "7",
        "f4": Decimal("1.50"),
        "f5": '{"f3": "inner"}',
        "f6": "01:02:03",
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (fields("int"), [1]),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, 5),
        ("string", 5),
    ],
)
def test_values_of_another_form_are_refused(schema, value):
    with pytest.raises(UndecodedValue, match="where the column has"):
        avro(schema).shaped(value)
