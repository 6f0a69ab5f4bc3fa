"""`decoded`: a column of keys or values, decoded by the schemas of a registry or by a local schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from trimaran.spark.schema_values.column_types import JSON_TEXT, ColumnType, column_type
from trimaran.wire.values.access import RegistryAccess
from trimaran.wire.values.avro import AvroSchema
from trimaran.wire.values.decoder import (
    Schema,
    ValueDecoder,
    decode_bare,
    file_schema,
    parsed_schema,
)
from trimaran.wire.values.failures import UndecodedValue
from trimaran.wire.values.framing import IdKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OnError = Literal["fail", "null"]

_PLACE = ("topic", "partition", "offset")
_MADE = "__decoded_value_and_error"
_REGISTRIES_KEPT = 16


@lru_cache(maxsize=_REGISTRIES_KEPT)
def _decoder(access: RegistryAccess) -> ValueDecoder:
    """Returns the decoder of this process: successive tasks share its schemas."""
    return ValueDecoder(access.client())


@dataclass(frozen=True)
class Decoding:
    """The decoding of one column, sent to executors. Without a schema, the result is JSON in a string."""

    access: RegistryAccess | None
    schema: Schema | None
    message: str
    is_key: bool
    fails: bool

    @property
    def kind(self) -> ColumnType:
        return JSON_TEXT if self.schema is None else column_type(self.schema, self.message)

    @property
    def result(self) -> t.StructType:
        error = t.StructField("error", t.StringType())
        return t.StructType([t.StructField("value", self.kind.spark), error])

    def inputs(self, names: Collection[str]) -> list[str]:
        """Returns the further columns that decoding needs, if the frame, which has these names, has them."""
        headers = ["headers"] if self.access is not None else []
        place = _PLACE if self.fails else ()
        return [name for name in (*headers, *place) if name in names]

    def columns(self, values: pa.Array, inputs: Mapping[str, pa.Array]) -> pa.Array:
        """Decodes a batch of rows to structs of value and error, one of which is null.

        Raises:
            UndecodedValue: for the first value that cannot be decoded, if `fails`.
        """
        headers = inputs.get("headers")
        kind = self.kind
        arrow = to_arrow_type(kind.spark, timezone="UTC")
        found: list[Any] = []
        errors: list[str | None] = []
        for at, value in enumerate(values.to_pylist()):
            row_headers = headers[at].as_py() if headers is not None else None
            shaped, error = self._row(kind, value, row_headers or ())
            found.append(shaped)
            errors.append(error)
        try:
            made = pa.array(found, arrow)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            made = self._one_by_one(found, errors, arrow)
        self._check(errors, inputs)
        return pa.StructArray.from_arrays(
            [made, pa.array(errors, pa.string())],
            fields=list(to_arrow_type(self.result, timezone="UTC")),
        )

    def _row(self, kind: ColumnType, value: bytes | None, headers: Any) -> tuple[Any, str | None]:
        if value is None:
            return None, None
        try:
            decoded = self._decoded(value, [(each["key"], each["value"]) for each in headers])
            return None if decoded is None else kind.shaped(decoded), None
        except UndecodedValue as error:
            return None, str(error)

    def _decoded(self, value: bytes, headers: Iterable[tuple[str, bytes]]) -> object:
        if self.access is None:
            if self.schema is None:
                raise UndecodedValue("neither a registry nor a schema is given")
            return decode_bare(value, self.schema, self.message).value
        read_as = self.schema if isinstance(self.schema, AvroSchema) else None
        decoder = _decoder(self.access)
        return decoder.decode(value, headers, is_key=self.is_key, read_as=read_as).value

    @staticmethod
    def _one_by_one(found: list[Any], errors: list[str | None], arrow: pa.DataType) -> pa.Array:
        """Converts values one by one, to find those that Arrow refuses, such as a JSON integer above 64 bits."""
        for at, value in enumerate(found):
            try:
                pa.array([value], arrow)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                found[at] = None
                errors[at] = f"the value does not fit into the column ({str(error)[:200]})"
        return pa.array(found, arrow)

    def _check(self, errors: list[str | None], inputs: Mapping[str, pa.Array]) -> None:
        first = next((at for at, error in enumerate(errors) if error is not None), None)
        if first is None or not self.fails:
            return
        where = [f"{name} {inputs[name][first].as_py()}" for name in _PLACE if name in inputs]
        raise UndecodedValue(
            f'{", ".join(where) or "a record"}: {errors[first]}. To go on with null instead: on_error="null"'
        )


def decoded(
    frame: DataFrame,
    column: str = "value",
    *,
    registry: str | None = None,
    subject: str | None = None,
    schema: str | Path | None = None,
    message: str = "",
    on_error: OnError = "fail",
    is_key: bool | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    ca: str | None = None,
    ids: str | None = None,
) -> DataFrame:
    """Returns the frame with a binary column decoded: a struct by a schema, or else a string with JSON.

    Args:
        frame: rows of `kafka_log` or of Spark's Kafka source, also of a stream.
        column: the binary column. The column `headers` is used, too, if the frame has it.
        registry: the URL of a registry; each value is decoded by the schema of its id. Without it, values have no ids.
        subject: the type of the column is that of the latest version of this subject, such as `orders-value`.
        schema: the type is that of this local file: `.avsc`, `.proto`, `.desc` or `.pb` (descriptors), `.json`.
        message: the name of a Protobuf message, by default the first one of the schema.
        on_error: `fail` fails the query with an error that names the record; `null` continues, and adds a column of
            errors, such as `value_error`. The query always fails if the registry does not answer.
        is_key: whether the column has keys; by default only if it is named `key`.
        user, password, token: credentials for the registry, sent as HTTP Basic or as a bearer token.
        ca: a PEM file with the certificate authority of the registry; it must be at the same path on executors.
        ids: the kind of Apicurio's ids in values, `globalId` or `contentId`, if it is not the default of the
        serializers.

    Raises:
        UnusableSchema: the schema cannot be used.
        RegistryFailure: the registry does not answer.
        ValueError: options contradict each other, or there is no such binary column.
    """
    access = None
    if registry is not None:
        kind = None if ids is None else _id_kind(ids)
        access = RegistryAccess(registry, user, password, token, ca, kind)
    own = _schema(access, subject, schema)
    if on_error not in ("fail", "null"):
        raise ValueError(f"on_error is {on_error!r}, and can be 'fail' or 'null'")
    _check_column(frame, column)
    keys = column == "key" if is_key is None else is_key
    decoding = Decoding(access, own, message, keys, on_error == "fail")
    made = frame.withColumn(_MADE, _applied(decoding, frame, column))
    columns = [
        f.col(f"{_MADE}.value").alias(name) if name == column else f.col(f"`{name}`")
        for name in frame.columns
    ]
    errors = [] if decoding.fails else [f.col(f"{_MADE}.error").alias(f"{column}_error")]
    return made.select(*columns, *errors)


def _check_column(frame: DataFrame, column: str) -> None:
    """Raises ValueError unless the frame has a binary column of exactly this name; Spark itself ignores letter case."""
    if column not in frame.columns:
        raise ValueError(f"there is no column {column!r}; there are {', '.join(frame.columns)}")
    kind = frame.schema[column].dataType
    if not isinstance(kind, t.BinaryType):
        raise ValueError(
            f"column {column} is of type {kind.simpleString()}, and values by schemas are binary"
        )


def _id_kind(ids: str) -> IdKind:
    if ids not in (IdKind.GLOBAL.value, IdKind.CONTENT.value):
        raise ValueError(f"ids is {ids!r}, and can be 'globalId' or 'contentId'")
    return IdKind(ids)


def _schema(
    access: RegistryAccess | None, subject: str | None, file: str | Path | None
) -> Schema | None:
    if subject is not None and file is not None:
        raise ValueError("subject and schema both give the type of the column: give one of them")
    if file is not None:
        return file_schema(Path(file))
    if access is None:
        raise ValueError(
            "give the URL of a registry (registry=), or a local file with the schema (schema=)"
        )
    return None if subject is None else parsed_schema(access.client().latest(subject))


def _applied(decoding: Decoding, frame: DataFrame, column: str) -> Column:
    inputs = decoding.inputs(frame.columns)

    def decode(values: pa.Array, *others: pa.Array) -> pa.Array:
        return decoding.columns(values, dict(zip(inputs, others, strict=True)))

    # The type stubs of `arrow_udf` lack struct types.
    run: Callable[..., Column] = arrow_udf(decode, decoding.result)  # type: ignore[call-overload]
    return run(f.col(f"`{column}`"), *inputs)
