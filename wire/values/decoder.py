"""Decoders of values: by the schema that a registry has for the id in a value, or by one local file for all values."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimaran.wire.values.avro import AvroSchema, avro_schema
from trimaran.wire.values.failures import UndecodedValue, UnusableSchema
from trimaran.wire.values.framing import (
    FramedValue,
    Headers,
    SchemaId,
    message_indexes,
    type_reference,
    unframe,
)
from trimaran.wire.values.protobuf import ProtobufSchema, protobuf_schema
from trimaran.wire.values.protoc import compiled_file
from trimaran.wire.values.registry import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaRegistry

SCHEMAS_MAX = 1_000
"""The maximum number of cached schemas, dropped by last use. The schema of an id never changes."""
VALUE_BYTES_MAX = 32 << 20
"""The maximum size of a value to decode; its objects take many times its bytes."""
REFUSAL_SECONDS = 30.0
"""The time for which an unknown or unusable schema is not requested again: otherwise a faulty producer would cause a
request for each of its records.
"""


@dataclass(frozen=True)
class JsonSchema:
    """A JSON Schema. Values are parsed and not checked, since their serializers have checked them."""

    content: Any

    @staticmethod
    def decode(payload: memoryview) -> object:
        """Parses a value.

        Raises:
            UndecodedValue: it is not JSON.
        """
        try:
            return json.loads(bytes(payload))
        except (ValueError, RecursionError) as error:
            raise UndecodedValue(
                f"the value is no JSON ({str(error)[:200]}): see its producer"
            ) from None


Schema = AvroSchema | ProtobufSchema | JsonSchema


@dataclass(frozen=True)
class DecodedValue:
    """A value with Python's types, see `trimaran.wire.values.json_form`; `schema_id` is None for a local schema, and
    `message` is the full name of a Protobuf message.
    """

    value: object
    schema_id: SchemaId | None = None
    message: str = ""


def parsed_schema(registered: RegisteredSchema) -> Schema:
    """Parses a schema of a registry.

    Raises:
        UnusableSchema: it is malformed, or of an unsupported kind.
    """
    if registered.kind == AVRO:
        return avro_schema(registered.text, list(registered.references.values()))
    if registered.kind == PROTOBUF:
        return protobuf_schema(registered.text, registered.references)
    if registered.kind == JSON:
        return _json_schema(registered.text)
    raise UnusableSchema(
        f"schemas of type {registered.kind[:80]!r} are not decoded, but {AVRO}, {PROTOBUF} and {JSON}"
    )


def _json_schema(text: str) -> JsonSchema:
    try:
        return JsonSchema(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UnusableSchema(f"no JSON Schema ({str(error)[:200]})") from None


def file_schema(path: Path) -> Schema:
    """Reads a local schema: `.avsc` for Avro, `.proto` or a set of descriptors (`.desc`, `.pb`) for Protobuf, `.json`
    for JSON.

    Raises:
        UnusableSchema: it is malformed, or the file name has another suffix.
        OSError: the file cannot be read.
    """
    readers: Mapping[str, Callable[[Path], Schema]] = {
        ".avsc": lambda file: avro_schema(file.read_text()),
        ".proto": lambda file: ProtobufSchema(compiled_file(file)),
        ".desc": lambda file: ProtobufSchema(file.read_bytes()),
        ".pb": lambda file: ProtobufSchema(file.read_bytes()),
        ".json": lambda file: _json_schema(file.read_text()),
    }
    if path.suffix not in readers:
        raise UnusableSchema(f"{path} is no schema by its name: it ends with {', '.join(readers)}")
    return readers[path.suffix](path)


class ValueDecoder:
    """Decodes values by the schemas of a registry. A decoder may be used by several threads."""

    def __init__(
        self,
        registry: SchemaRegistry,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._monotonic = monotonic
        self._known: OrderedDict[SchemaId, Schema] = OrderedDict()
        self._refused: OrderedDict[SchemaId, tuple[float, str]] = OrderedDict()

    def decode(
        self,
        value: bytes,
        headers: Headers = (),
        *,
        is_key: bool = False,
        read_as: AvroSchema | None = None,
    ) -> DecodedValue:
        """Decodes a value by the schema id at its beginning or in its headers.

        Args:
            value: the bytes of a value or a key.
            headers: the headers of its record.
            is_key: whether it is a key.
            read_as: the reader's schema, to which Avro values are resolved.

        Raises:
            UndecodedValue: this value cannot be decoded; other values may be valid.
            RegistryFailure: the registry does not answer.
        """
        check_size(value)
        framed = unframe(value, headers, is_key=is_key)
        try:
            decoded, message = self._payload(framed, read_as)
        except UndecodedValue as error:
            raise UndecodedValue(f"{framed.schema_id}: {error}") from None
        return DecodedValue(decoded, framed.schema_id, message)

    def _payload(self, framed: FramedValue, read_as: AvroSchema | None) -> tuple[object, str]:
        """Returns the value, and the name of its Protobuf message."""
        schema = self.schema(framed.schema_id)
        if isinstance(schema, AvroSchema):
            return schema.decode(framed.payload, read_as), ""
        if isinstance(schema, JsonSchema):
            return schema.decode(framed.payload), ""
        payload = framed.payload
        if framed.type_name is not None:
            descriptor = schema.type_named(framed.type_name)
        elif self._registry.has_type_references:
            name, payload = type_reference(payload)
            descriptor = schema.type_named(name)
        else:
            if framed.type_prefix is not None:
                indexes, _ = message_indexes(framed.type_prefix)
            else:
                indexes, payload = message_indexes(payload)
            descriptor = schema.type_at(indexes)
        return schema.decode(payload, descriptor), descriptor.full_name

    def schema(self, schema_id: SchemaId) -> Schema:
        """Returns the schema of an id; requests it unless it is cached.

        Raises:
            UnusableSchema: the registry does not have it, or it cannot be used.
            RegistryFailure: the registry does not answer.
        """
        known = self._known.pop(schema_id, None)
        if known is None:
            known = self._requested(schema_id)
        self._known[schema_id] = known
        if len(self._known) > SCHEMAS_MAX:
            self._known.popitem(last=False)
        return known

    def _requested(self, schema_id: SchemaId) -> Schema:
        until, told = self._refused.get(schema_id, (0.0, ""))
        if told and self._monotonic() < until:
            raise UnusableSchema(told)
        try:
            return parsed_schema(self._registry.schema(schema_id))
        except UnusableSchema as error:
            self._refused[schema_id] = self._monotonic() + REFUSAL_SECONDS, str(error)
            if len(self._refused) > SCHEMAS_MAX:
                self._refused.popitem(last=False)
            raise


def decode_bare(value: bytes, schema: Schema, message: str = "") -> DecodedValue:
    """Decodes a value that is written without an id.

    Args:
        value: the bytes.
        schema: a local schema, see `file_schema`.
        message: the type of a Protobuf message, by default the first of the file.

    Raises:
        UndecodedValue: it cannot be decoded.
    """
    check_size(value)
    payload = memoryview(value)
    if isinstance(schema, ProtobufSchema):
        descriptor = schema.type_named(message)
        return DecodedValue(schema.decode(payload, descriptor), message=descriptor.full_name)
    return DecodedValue(schema.decode(payload))


def check_size(value: bytes) -> None:
    """Raises UndecodedValue for a value that is too large."""
    if len(value) > VALUE_BYTES_MAX:
        raise UndecodedValue(
            f"a value of {len(value)} bytes, and at most {VALUE_BYTES_MAX} are decoded"
        )
