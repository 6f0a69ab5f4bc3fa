"""Codecs of keys and values: a `RegistryCodec` (by the ids in them), a `FileCodec` (by a local schema), or a
`MsgpackCodec`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimaran.client.record_values import Headers, JsonValue
from trimaran.wire.values import avro_writing, decoder, framing, json_form, msgpack, registry
from trimaran.wire.values.avro import AvroSchema
from trimaran.wire.values.failures import UnencodedValue
from trimaran.wire.values.framing import IdKind, SchemaId
from trimaran.wire.values.protobuf import ProtobufSchema


class RegistryCodec:
    """Values begin with the ids of their schemas in a registry.

    Args:
        client: the registry.
        is_key: whether keys are decoded.
        subject: values are written by its latest version, and values in Avro are resolved to it when read. Without it
            each value is read by its own schema, and written by the id that it names.
        default_subject: values that name no id are written by its latest version.
        message: the message of Protobuf to write, by default the first of the schema.
    """

    def __init__(
        self,
        client: registry.SchemaRegistry,
        *,
        is_key: bool,
        subject: str | None = None,
        default_subject: str | None = None,
        message: str = "",
    ) -> None:
        self._client, self._is_key, self._message = client, is_key, message
        self._subject, self._default_subject = subject, default_subject
        self._schemas = decoder.ValueDecoder(client)
        self._read_as: AvroSchema | None = None
        self._is_subject_read = subject is None
        self._latest: tuple[SchemaId, decoder.Schema] | None = None

    def decode(self, data: bytes, headers: Headers) -> JsonValue:
        """See `PartCodec.decode`."""
        if self._subject is not None and not self._is_subject_read:
            latest = decoder.parsed_schema(self._client.latest(self._subject))
            self._read_as = latest if isinstance(latest, AvroSchema) else None
            self._is_subject_read = True
        found = self._schemas.decode(data, headers, is_key=self._is_key, read_as=self._read_as)
        return JsonValue(json_form.as_json(found.value), str(found.schema_id), found.message)

    def encode(self, value: JsonValue, headers: Headers) -> bytes:
        """See `PartCodec.encode`. An id is written where it was: in front of the value, or in a header."""
        kind, _, number = value.schema.rpartition(" ")
        if self._subject is None and kind == IdKind.SHORT.value and number.isdecimal():
            schema_id = SchemaId(IdKind.SHORT, int(number))
            schema = self._schemas.schema(schema_id)
        else:
            schema_id, schema = self._of_subject()
        message = value.message or self._message
        payload = _payload(schema, value.value, message)
        if f"__{'key' if self._is_key else 'value'}_schema_id" in dict(headers):
            return payload
        return framing.framed(schema_id, payload, _indexes(schema, message))

    def _of_subject(self) -> tuple[SchemaId, decoder.Schema]:
        subject = self._subject or self._default_subject
        if subject is None:
            raise UnencodedValue(
                "the value names no id of a schema, such as 'id 5', and no subject is given"
            )
        if self._latest is None:
            schema_id, registered = self._client.latest_with_id(subject)
            self._latest = schema_id, decoder.parsed_schema(registered)
        return self._latest


class FileCodec:
    """Values are written without ids, all by one local schema."""

    def __init__(self, file: Path, message: str) -> None:
        self._schema = decoder.file_schema(file)
        self._name, self._message = file.name, message

    def decode(self, data: bytes, _headers: Headers) -> JsonValue:
        """See `PartCodec.decode`."""
        found = decoder.decode_bare(data, self._schema, self._message)
        return JsonValue(json_form.as_json(found.value), self._name, found.message)

    def encode(self, value: JsonValue, _headers: Headers) -> bytes:
        """See `PartCodec.encode`."""
        return _payload(self._schema, value.value, self._message or value.message)


class MsgpackCodec:
    """Values are MessagePack."""

    def decode(self, data: bytes, _headers: Headers) -> JsonValue:
        """See `PartCodec.decode`."""
        decoder.check_size(data)
        return JsonValue(json_form.as_json(msgpack.decode(memoryview(data))), "msgpack")

    def encode(self, value: JsonValue, _headers: Headers) -> bytes:
        """See `PartCodec.encode`."""
        return msgpack.encode(value.value)


def _payload(schema: decoder.Schema, value: Any, message: str) -> bytes:
    if isinstance(schema, AvroSchema):
        return avro_writing.avro_bytes(schema, value)
    if isinstance(schema, ProtobufSchema):
        return schema.encode(value, schema.type_named(message))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _indexes(schema: decoder.Schema, message: str) -> list[int]:
    if not isinstance(schema, ProtobufSchema):
        return []
    return schema.indexes_of(schema.type_named(message))
