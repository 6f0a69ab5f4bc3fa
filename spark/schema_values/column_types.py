"""The Spark type of a schema, and the conversion of decoded values to that type.

A part without a corresponding type is a string with JSON: unions of several types, recursive types, JSON of any form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t

from trimaran.wire.values.avro import AvroSchema
from trimaran.wire.values.avro_shape import NESTING_MAX
from trimaran.wire.values.decoder import JsonSchema, Schema
from trimaran.wire.values.failures import UndecodedValue, UnusableSchema
from trimaran.wire.values.json_form import as_json
from trimaran.wire.values.protobuf import WELL_KNOWN, ProtobufSchema, is_map

DECIMAL_DIGITS_MAX = 38
"""The maximum precision of Spark's decimals."""
FIELDS_MAX = 5_000
"""The maximum number of fields of a column's type, including those inside structs. If each type refers to the next one
twice, the number doubles with each level: a schema of a kilobyte can have a billion fields.
"""

_UNSIGNED_DIGITS = 20


@dataclass(frozen=True)
class ColumnType:
    """The Spark type. `shaped` converts a decoded value, which is not None, to the form that Arrow accepts for the
    type. `fields` is the number of fields of the type.
    """

    spark: t.DataType
    shaped: Callable[[Any], Any]
    fields: int = 0


def column_type(schema: Schema, message: str = "") -> ColumnType:
    """Returns the type of a schema; `message` is the name of a Protobuf message, by default the first of the file.

    Raises:
        UnusableSchema: the type would have too many fields.
    """
    if isinstance(schema, AvroSchema):
        return _avro(schema.parsed, schema.named, ())
    if isinstance(schema, ProtobufSchema):
        return _message(schema.type_named(message), ())
    return _json(schema, schema.content, ())


def _same(value: Any) -> Any:
    return value


def json_text(value: object) -> str:
    """Returns the JSON of a decoded value."""
    return json.dumps(as_json(value), ensure_ascii=False)


def _string(value: Any) -> str:
    text = as_json(value)
    if not isinstance(text, str):
        raise UndecodedValue(f"a {type(value).__name__} where the column has a string")
    return text


JSON_TEXT = ColumnType(t.StringType(), json_text)
_STRING = ColumnType(t.StringType(), _string)


def _plain(kind: t.DataType) -> ColumnType:
    return ColumnType(kind, _same)


def _list_of(item: ColumnType) -> ColumnType:
    def shaped(value: Any) -> Any:
        _expect(value, list, "an array")
        return [None if each is None else item.shaped(each) for each in value]

    return ColumnType(t.ArrayType(item.spark), shaped, item.fields)


def _map_of(key: t.DataType, value: ColumnType) -> ColumnType:
    def shaped(found: Any) -> Any:
        _expect(found, dict, "a map")
        return [(k, None if v is None else value.shaped(v)) for k, v in found.items()]

    return ColumnType(t.MapType(key, value.spark), shaped, value.fields)


def _struct_of(members: Iterable[tuple[str, ColumnType]]) -> ColumnType:
    """Returns a struct. Consumes the members one by one, so that none is created once there are too many fields."""
    fields: dict[str, ColumnType] = {}
    count = 0
    for member, its_kind in members:
        fields[member] = its_kind
        count += 1 + its_kind.fields
        if count > FIELDS_MAX:
            raise UnusableSchema(
                f"the column would have more than {FIELDS_MAX} fields: decode by a schema with fewer, or without one "
                "to JSON"
            )

    def shaped(found: Any) -> Any:
        _expect(found, dict, "a record")
        values = ((name, kind, found.get(name)) for name, kind in fields.items())
        return {name: None if value is None else kind.shaped(value) for name, kind, value in values}

    return ColumnType(
        t.StructType([t.StructField(name, kind.spark) for name, kind in fields.items()]),
        shaped,
        count,
    )


def _expect(value: object, kind: type, told: str) -> None:
    if not isinstance(value, kind):
        raise UndecodedValue(
            f"a {type(value).__name__} where the column has {told}: another schema?"
        )


_AVRO = {
    "null": _STRING,
    "string": _STRING,
    "enum": _STRING,
    "boolean": _plain(t.BooleanType()),
    "int": _plain(t.IntegerType()),
    "long": _plain(t.LongType()),
    "float": _plain(t.FloatType()),
    "double": _plain(t.DoubleType()),
    "bytes": _plain(t.BinaryType()),
    "fixed": _plain(t.BinaryType()),
}
_AVRO_LOGICAL = {
    "date": _plain(t.DateType()),
    "timestamp-millis": _plain(t.TimestampType()),
    "timestamp-micros": _plain(t.TimestampType()),
    "local-timestamp-millis": _plain(t.TimestampNTZType()),
    "local-timestamp-micros": _plain(t.TimestampNTZType()),
    "time-millis": _STRING,
    "time-micros": _STRING,
    "uuid": _STRING,
}
_WIDER = ({"int", "long"}, "long"), ({"float", "double"}, "double")


def _avro(schema: Any, named: dict[str, Any], path: tuple[str, ...]) -> ColumnType:
    if isinstance(schema, list):
        return _avro_union(schema, named, path)
    if isinstance(schema, str):
        if schema in _AVRO:
            return _AVRO[schema]
        return JSON_TEXT if schema in path else _avro(named[schema], named, path)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "bounded-decimal":
        digits, scale = schema["precision"], schema.get("scale", 0)
        fits = scale <= digits <= DECIMAL_DIGITS_MAX
        return _plain(t.DecimalType(digits, scale)) if fits else _STRING
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if kind in ("record", "error"):
        inside = (*path, schema["name"])
        return _struct_of(
            (each["name"], _avro(each["type"], named, inside)) for each in schema["fields"]
        )
    if kind == "array":
        return _list_of(_avro(schema["items"], named, path))
    if kind == "map":
        return _map_of(t.StringType(), _avro(schema["values"], named, path))
    return _avro(kind, named, path)


def _avro_union(branches: list[Any], named: dict[str, Any], path: tuple[str, ...]) -> ColumnType:
    kinds = [branch for branch in branches if branch != "null"]
    if len(kinds) == 1:
        return _avro(kinds[0], named, path)
    for together, wider in _WIDER:
        if all(isinstance(kind, str) and kind in together for kind in kinds):
            return _AVRO[wider]
    return JSON_TEXT


_PROTOBUF = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _plain(t.IntegerType())),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), _plain(t.LongType())),
    **dict.fromkeys(("uint64", "fixed64"), _plain(t.DecimalType(_UNSIGNED_DIGITS, 0))),
    "float": _plain(t.FloatType()),
    "double": _plain(t.DoubleType()),
    "bool": _plain(t.BooleanType()),
    "string": _STRING,
    "bytes": _plain(t.BinaryType()),
    "enum": _STRING,
}
_WELL_KNOWN = {
    "google.protobuf.Timestamp": _plain(t.TimestampType()),
    "google.protobuf.Duration": _plain(t.DayTimeIntervalType()),
    "confluent.type.Decimal": _STRING,
}


def _message(descriptor: Any, path: tuple[str, ...]) -> ColumnType:
    name = descriptor.full_name
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if name in WELL_KNOWN:
        wrapped = descriptor.fields_by_name.get("value")
        return JSON_TEXT if wrapped is None else _protobuf_field(wrapped, path)
    if name in path or len(path) > NESTING_MAX:
        return JSON_TEXT
    inside = (*path, name)
    return _struct_of((each.name, _member(each, inside)) for each in descriptor.fields)


def _member(descriptor: Any, path: tuple[str, ...]) -> ColumnType:
    if is_map(descriptor):
        inner = descriptor.message_type.fields_by_name
        key = _protobuf_field(inner["key"], path).spark
        return _map_of(
            t.StringType() if isinstance(key, t.BooleanType) else key,
            _protobuf_field(inner["value"], path),
        )
    found = _protobuf_field(descriptor, path)
    return _list_of(found) if descriptor.is_repeated else found


def _protobuf_field(descriptor: Any, path: tuple[str, ...]) -> ColumnType:
    if descriptor.message_type is not None:
        return _message(descriptor.message_type, path)
    return _PROTOBUF[_TYPE_NAMES[descriptor.type]]


# FieldDescriptorProto.Type
_TYPE_NAMES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}

_JSON = {
    "string": _STRING,
    "integer": _plain(t.LongType()),
    "number": _plain(t.DoubleType()),
    "boolean": _plain(t.BooleanType()),
}


def _json(schema: JsonSchema, part: Any, path: tuple[str, ...]) -> ColumnType:
    if not isinstance(part, dict) or len(path) > NESTING_MAX:
        return JSON_TEXT
    if (target := part.get("$ref")) is not None:
        known = isinstance(target, str) and target.startswith("#/") and target not in path
        return _json(schema, _at(schema.content, target), (*path, target)) if known else JSON_TEXT
    kinds = part.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else ""
    inside = (*path, "[inside]")
    if kind == "object" and isinstance(part.get("properties"), dict) and part["properties"]:
        return _struct_of(
            (name, _json(schema, each, inside)) for name, each in part["properties"].items()
        )
    if kind == "object" and isinstance(part.get("additionalProperties"), dict):
        return _map_of(t.StringType(), _json(schema, part["additionalProperties"], inside))
    if kind == "array" and isinstance(part.get("items"), dict):
        return _list_of(_json(schema, part["items"], inside))
    return _JSON.get(kind, JSON_TEXT)


def _at(content: Any, target: str) -> Any:
    """Returns the part of a JSON Schema to which a reference inside it points; None if there is none."""
    for name in target[2:].split("/"):
        if not isinstance(content, dict):
            return None
        content = content.get(name.replace("~1", "/").replace("~0", "~"))
    return content
