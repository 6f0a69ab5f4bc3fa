"""The framing of values: the schema id before a value or in a header of its record.

Confluent: a zero byte and a 4-byte id, or a byte 1 and a GUID; in Protobuf, message indexes follow. Since version 8
of the platform the same bytes may be in the header `__value_schema_id` instead.
Apicurio: a zero byte and an id of 4 bytes (3.x) or 8 bytes (2.x), or the id in a header. An id is positive and below
2**31, so an id that begins with four zero bytes has 8 bytes (Apicurio's OptimisticFallbackIdHandler).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from trimaran.wire.values.failures import NoSchemaId, UndecodedValue, UnencodedValue

MESSAGE_INDEXES_MAX = 64
"""The maximum depth of nested message types, far more than a .proto file has; protoc refuses more than 32."""

Headers = Iterable[tuple[str, bytes | None]]

_BY_ID, _BY_GUID = 0, 1
_SHOWN_BYTES = 8


class IdKind(Enum):
    """The kind of a schema id. `value` is its name in messages and, for GLOBAL and CONTENT, in the paths and headers of
    Apicurio.
    """

    SHORT = "id"
    LONG = "8-byte id"
    GUID = "GUID"
    GLOBAL = "globalId"
    CONTENT = "contentId"


@dataclass(frozen=True, slots=True)
class SchemaId:
    """The id of a schema in a registry; `number` is the id, or the GUID as an integer."""

    kind: IdKind
    number: int

    def __str__(self) -> str:
        return f"{self.kind.value} {self.path}"

    @property
    def path(self) -> str:
        """Returns the id as it appears in the path of a request to the registry."""
        return str(UUID(int=self.number)) if self.kind is IdKind.GUID else str(self.number)


@dataclass(frozen=True, slots=True)
class FramedValue:
    """A value in parts. `type_prefix` has the message indexes of Protobuf if the id is in a header: then `payload` is
    the whole value. Otherwise it is None, and `payload` begins with the message indexes.
    """

    schema_id: SchemaId
    payload: memoryview
    type_prefix: memoryview | None = None
    type_name: str | None = None


def unframe(value: bytes, headers: Headers = (), *, is_key: bool = False) -> FramedValue:
    """Finds the schema's id in the headers, or else at the beginning of the value.

    Raises:
        UndecodedValue: neither has one.
    """
    named = {name: content for name, content in headers if content is not None}
    part = "key" if is_key else "value"
    if (confluent := named.get(f"__{part}_schema_id")) is not None:
        schema_id, rest = _read_id(memoryview(confluent), f"header __{part}_schema_id")
        return FramedValue(schema_id, memoryview(value), rest)
    type_name = named.get("apicurio.protobuf.type" + (".key" if is_key else ""))
    for kind in (IdKind.GLOBAL, IdKind.CONTENT):
        header = f"apicurio.{part}.{kind.value}"
        if (apicurio := named.get(header)) is not None:
            if len(apicurio) != 8:
                raise UndecodedValue(
                    f"header {header} has {len(apicurio)} bytes, and an id has 8; see its producer"
                )
            name = type_name.decode(errors="replace") if type_name is not None else None
            found = SchemaId(kind, int.from_bytes(apicurio, "big"))
            return FramedValue(found, memoryview(value), None, name)
    schema_id, payload = _read_id(memoryview(value), part)
    return FramedValue(schema_id, payload)


def _read_id(data: memoryview, place: str) -> tuple[SchemaId, memoryview]:
    if len(data) >= 5 and data[0] == _BY_ID:
        if not any(data[1:5]) and len(data) >= 9:
            return SchemaId(IdKind.LONG, int.from_bytes(data[1:9], "big")), data[9:]
        return SchemaId(IdKind.SHORT, int.from_bytes(data[1:5], "big")), data[5:]
    if len(data) >= 17 and data[0] == _BY_GUID:
        return SchemaId(IdKind.GUID, int.from_bytes(data[1:17], "big")), data[17:]
    shown = bytes(data[:_SHOWN_BYTES]).hex(" ") or "no bytes"
    raise NoSchemaId(
        f"the {place} does not begin with the id of a schema ({len(data)} bytes: {shown}); a serializer of a registry "
        "begins it with byte 0 and an id; if it was written without one, decode it by a local schema"
    )


def message_indexes(data: memoryview) -> tuple[list[int], memoryview]:
    """Reads the path to the type in its .proto file; returns it and the bytes after it. An empty path means `[0]`."""
    count, data = _zigzag(data)
    if not 0 <= count <= MESSAGE_INDEXES_MAX:
        raise UndecodedValue(
            f"{count} message indexes, and at most {MESSAGE_INDEXES_MAX} are read: Protobuf by another framing? "
            "Apicurio's own needs the URL of Apicurio's own API, which ends with /apis/registry/v3"
        )
    indexes = []
    for _ in range(count):
        index, data = _zigzag(data)
        indexes.append(index)
    return indexes or [0], data


def type_reference(data: memoryview) -> tuple[str, memoryview]:
    """Reads Apicurio's `Ref`, a length-delimited message whose field 1 is the name of the type, and returns the name
    with the bytes after it.
    """
    size, data = _varint(data)
    if size > len(data):
        raise UndecodedValue(f"a type reference of {size} bytes in a value with {len(data)} more")
    reference, rest = data[:size], data[size:]
    if not reference:
        return "", rest
    length, name = _varint(reference[1:])
    if reference[0] != 0x0A or length != len(name):
        raise UndecodedValue(
            "no type reference of Apicurio's Protobuf serializer: see its producer"
        )
    return bytes(name).decode(errors="replace"), rest


def framed(schema_id: SchemaId, payload: bytes, indexes: Sequence[int] = ()) -> bytes:
    """Returns a value as Confluent's serializers write it; `indexes` is the path of a Protobuf message, or empty.

    Raises:
        UnencodedValue: the id is of another registry.
    """
    if schema_id.kind is not IdKind.SHORT:
        raise UnencodedValue(
            f"values with the id {schema_id} are not written, only those with an id of Confluent's API"
        )
    head = bytes([_BY_ID]) + schema_id.number.to_bytes(4, "big")
    if not indexes:
        return head + payload
    # The path of the first message, the usual one, is a single zero.
    path = [0] if list(indexes) == [0] else [len(indexes), *indexes]
    return head + b"".join(map(_zigzag_bytes, path)) + payload


def _zigzag_bytes(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _zigzag(data: memoryview) -> tuple[int, memoryview]:
    value, rest = _varint(data)
    return (value >> 1) ^ -(value & 1), rest


def _varint(data: memoryview) -> tuple[int, memoryview]:
    value = 0
    for at, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, data[at + 1 :]
    raise UndecodedValue("the value ends, or is malformed, at the type of its message")
