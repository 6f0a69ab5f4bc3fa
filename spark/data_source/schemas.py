"""Converts schemas between Spark and Arrow: the columns of a source, and those that the user's schema requests.

A schema, given by the user or by the rule of the session (`.schema("offset bigint, topic string")`)
reaches the reader, which then builds only those columns.
"""

from __future__ import annotations

import difflib

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from trimaran.spark.options import OptionError


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the Spark schema of Arrow columns, with timestamps in UTC."""
    return from_arrow_schema(schema)


def columns_of(wanted: StructType, offered: pa.Schema, source: str) -> tuple[str, ...]:
    """Returns the names in the user's schema, in its order.

    Raises:
        OptionError: the source does not have one of the columns, or has it with another type.
    """
    known = {field.name: field.dataType for field in spark_schema(offered).fields}
    for field in wanted.fields:
        if field.name not in known:
            near = difflib.get_close_matches(field.name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise OptionError(
                f"{source}: no column {field.name}{hint} There are: {', '.join(known)}"
            )
        if _loose(field.dataType) != _loose(known[field.name]):
            right = known[field.name].simpleString()
            raise OptionError(
                f"{source}: column {field.name} is a {right}, not {field.dataType.simpleString()}"
            )
    return tuple(field.name for field in wanted.fields)


def _loose(kind: DataType) -> DataType:
    """Returns the type without the nullability of its parts, which users need not state."""
    match kind:
        case ArrayType():
            return ArrayType(_loose(kind.elementType))
        case StructType():
            return StructType([StructField(f.name, _loose(f.dataType)) for f in kind.fields])
        case _:
            return kind
