"""Types of Spark for schemas, and values in the form of these types."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from trimaran.spark.schema_values.column_types import column_type
from trimaran.wire.values.avro import avro_schema
from trimaran.wire.values.decoder import JsonSchema
from trimaran.wire.values.failures import UndecodedValue
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
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "string"),
    ],
    ids=str,
)
def test_types_of_avro(schema, told):
    assert avro(schema).spark.simpleString() == told


def test_types_of_protobuf():
    schema = protobuf_schema(PROTO, {})
    assert column_type(schema, "Top").spark.simpleString() == (
        "struct<a:int,b:bigint,c:decimal(20,0),d:float,e:double,f:boolean,g:string,h:binary,i:string,"
        "j:array<struct<x:string>>,k:map<string,struct<x:string>>,l:map<string,bigint>,m:timestamp,"
        "n:interval day to second,o:string,p:boolean,q:string,r:string>"
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
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "https://x"}},
                "$defs": {"A": {"type": "object", "properties": {"c": {"$ref": "#/$defs/A"}}}},
            },
            "struct<a:struct<c:string>,b:string>",
        ),
        ({"$ref": "#/absent/part"}, "string"),
    ],
    ids=str,
)
def test_types_of_json(schema, told):
    assert column_type(JsonSchema(schema)).spark.simpleString() == told


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
