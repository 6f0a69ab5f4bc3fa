"""Messages of Protobuf, by descriptors that are compiled or read at run time.

An absent field is omitted if it tracks presence; otherwise it has its default. Well-known types become the values that
they represent: times, durations, plain numbers, JSON.
"""

from __future__ import annotations

import datetime as dt
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trimaran.wire.later import imported_later
from trimaran.wire.values import protoc
from trimaran.wire.values.avro import DECIMAL_BYTES_MAX, SCALE_MAX
from trimaran.wire.values.failures import EXTRA, UndecodedValue, UnencodedValue, UnusableSchema

if TYPE_CHECKING:
    from google.protobuf import (
        descriptor_pb2,
        descriptor_pool,
        json_format,
        message,
        message_factory,
    )
else:
    descriptor_pb2 = imported_later("google.protobuf.descriptor_pb2")
    descriptor_pool = imported_later("google.protobuf.descriptor_pool")
    json_format = imported_later("google.protobuf.json_format")
    message = imported_later("google.protobuf.message")
    message_factory = imported_later("google.protobuf.message_factory")

# The limit of protobuf's own decoders.
_NESTING_MAX = 100
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class ProtobufSchema:
    """The messages of a .proto file. It is pickled as its descriptors."""

    def __init__(self, descriptors: bytes) -> None:
        """Reads a serialized FileDescriptorSet whose last file is the schema.

        Raises:
            UnusableSchema: it is malformed, or an import is missing.
        """
        self._descriptors = descriptors
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
            self._pool = descriptor_pool.DescriptorPool()
            for each in files:
                self._pool.AddSerializedFile(each.SerializeToString())
            self._file: Any = self._pool.FindFileByName(files[-1].name)
        except ModuleNotFoundError as error:
            raise UnusableSchema(f"Protobuf needs {error.name}. {EXTRA}") from None
        except (message.DecodeError, TypeError, LookupError) as error:
            raise UnusableSchema(
                f"no descriptors of Protobuf ({str(error)[:200]}): write them by protoc --include_imports "
                "--descriptor_set_out"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the call that recreates the schema in another process."""
        return ProtobufSchema, (self._descriptors,)

    def type_at(self, indexes: Sequence[int]) -> Any:
        """Returns the descriptor of the message at a path: the index in the file, then in the message, and so on."""
        found: Any = None
        inside: Sequence[Any] = list(self._file.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(inside):
                raise UndecodedValue(
                    f"the schema has no message at {list(indexes)}: see the value's producer"
                )
            found = inside[index]
            inside = found.nested_types
        if found.GetOptions().map_entry:
            raise UndecodedValue(
                f"the message at {list(indexes)} is the entry of a map: its serializer counts the messages of a schema "
                "differently than the registry"
            )
        return found

    def type_named(self, name: str) -> Any:
        """Returns the descriptor of a message by its name, with or without the package; the first message if the name
        is empty.
        """
        if not name:
            return self.type_at([0])
        for full in (name, f"{self._file.package}.{name}"):
            with suppress(KeyError):
                return self._pool.FindMessageTypeByName(full)
        known = ", ".join(self._file.message_types_by_name)
        raise UndecodedValue(f"the schema has no message {name[:200]!r}; it has {known[:400]}")

    def decode(self, payload: memoryview, descriptor: Any) -> object:
        """Returns the message as a `dict` by its fields' names.

        Raises:
            UndecodedValue: the bytes are not a message of this type, or a time is outside of Python's range.
        """
        try:
            parsed = message_factory.GetMessageClass(descriptor).FromString(bytes(payload))
            return _value(parsed)
        except message.DecodeError as error:
            told = str(error)[:200]
            raise UndecodedValue(
                f"the bytes are no message {descriptor.full_name} ({told}): see its producer"
            ) from None
        except (OverflowError, RecursionError, ValueError) as error:
            raise UndecodedValue(
                f"a field of {descriptor.full_name} is out of range ({str(error)[:200]})"
            ) from None

    def encode(self, value: object, descriptor: Any) -> bytes:
        """Returns the bytes of a message in its JSON form, with its fields in the order of their numbers.

        Raises:
            UnencodedValue: the value does not fit the message.
        """
        made = message_factory.GetMessageClass(descriptor)()
        try:
            json_format.ParseDict(
                value,
                made,
                descriptor_pool=self._pool,
                max_recursion_depth=_NESTING_MAX,
            )
        except (json_format.ParseError, AttributeError, TypeError, ValueError) as error:
            told = " ".join(str(error).split())[:300]
            raise UnencodedValue(
                f"the value is no message {descriptor.full_name} ({told})"
            ) from None
        return bytes(made.SerializeToString(deterministic=True))

    def indexes_of(self, descriptor: Any) -> list[int]:
        """Returns the path of a message, see `type_at`.

        Raises:
            UnencodedValue: it is a message of an imported file, which has no path.
        """
        path: list[int] = []
        while descriptor is not None:
            outer = descriptor.containing_type
            beside = (
                list(self._file.message_types_by_name.values())
                if outer is None
                else list(outer.nested_types)
            )
            if descriptor not in beside:
                raise UnencodedValue(f"{descriptor.full_name} is a message of another file")
            path.insert(0, beside.index(descriptor))
            descriptor = outer
        return path


def protobuf_schema(text: str, references: Mapping[str, str]) -> ProtobufSchema:
    """Compiles a schema; `references` has the files that it imports, by name.

    Each file may also be a descriptor in base64: Confluent's serializers for Python register descriptors, and not every
    registry converts these to text.
    """
    name = "schema.proto"
    while name in references:
        name = f"_{name}"
    texts: dict[str, str] = {}
    try:
        given = descriptor_pb2.FileDescriptorSet()
    except ModuleNotFoundError as error:
        raise UnusableSchema(f"Protobuf needs {error.name}. {EXTRA}") from None
    for each, content in {**references, name: text}.items():
        if (file := _serialized(each, content)) is not None:
            given.file.append(file)
        else:
            texts[each] = _MAP_ENTRY.sub(_MARK, content)
    compiled = protoc.compiled(name, texts, given.SerializeToString())
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled)
    for file in files.file:
        if file.name in texts:
            for kind in file.message_type:
                _place_map_entries(kind)
    return ProtobufSchema(files.SerializeToString())


# Text that Confluent's registry makes from a descriptor contains the messages that the compiler generated for maps, and
# the compiler refuses their option `map_entry`. It is replaced by a reserved field number, which marks these messages.
_MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARKED = (1 << 29) - 1
_MARK = f"reserved {_MARKED};"


def _place_map_entries(kind: Any) -> None:
    """Puts nested messages into the order in which Confluent's registry counts them: messages that the compiler
    generates for maps come last, except those that the text contains, which keep their places.
    """
    for nested in kind.nested_type:
        _place_map_entries(nested)
    nested_types = sorted(kind.nested_type, key=lambda nested: nested.options.map_entry)
    for nested in nested_types:
        if any(each.start == _MARKED for each in nested.reserved_range):
            nested.ClearField("reserved_range")
            nested.options.map_entry = True
    del kind.nested_type[:]
    kind.nested_type.extend(nested_types)


def _serialized(name: str, text: str) -> Any:
    """Returns the descriptor that the text contains in base64, with the name by which it is imported; None if the text
    is not base64 of a descriptor.
    """
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, message.DecodeError):
        return None
    found.name = name
    return found


def _value(parsed: Any) -> object:
    if special := WELL_KNOWN.get(parsed.DESCRIPTOR.full_name):
        return special(parsed)
    fields: dict[str, object] = {}
    for each in parsed.DESCRIPTOR.fields:
        if each.has_presence and not parsed.HasField(each.name):
            continue
        value = getattr(parsed, each.name)
        if is_map(each):
            inner = each.message_type.fields_by_name["value"]
            fields[each.name] = {_key(key): _member(inner, value[key]) for key in value}
        elif each.is_repeated:
            fields[each.name] = [_member(each, member) for member in value]
        else:
            fields[each.name] = _member(each, value)
    return fields


def is_map(descriptor: Any) -> bool:
    """Returns whether a field is a map: a repeated message that the compiler generated."""
    kind = descriptor.message_type
    return kind is not None and kind.GetOptions().map_entry


def _key(key: object) -> object:
    return str(key).lower() if isinstance(key, bool) else key


def _member(descriptor: Any, value: Any) -> object:
    if descriptor.message_type is not None:
        return _value(value)
    if descriptor.enum_type is not None:
        known = descriptor.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value


def _timestamp(parsed: Any) -> object:
    return _EPOCH + dt.timedelta(seconds=parsed.seconds, microseconds=parsed.nanos // 1_000)


def _duration(parsed: Any) -> object:
    return dt.timedelta(seconds=parsed.seconds, microseconds=parsed.nanos / 1_000)


def _decimal(parsed: Any) -> object:
    if len(parsed.value) > DECIMAL_BYTES_MAX or abs(parsed.scale) > SCALE_MAX:
        raise ValueError(f"a decimal of {len(parsed.value)} bytes with scale {parsed.scale}")
    if not parsed.value:
        return Decimal(0)
    return Decimal(f"{int.from_bytes(parsed.value, 'big', signed=True)}e{-parsed.scale}")


def _struct(parsed: Any) -> object:
    return {name: _json(value) for name, value in parsed.fields.items()}


def _list(parsed: Any) -> object:
    return [_json(value) for value in parsed.values]


def _json(parsed: Any) -> object:
    kind = parsed.WhichOneof("kind")
    if kind == "struct_value":
        return _struct(parsed.struct_value)
    if kind == "list_value":
        return _list(parsed.list_value)
    return None if kind in (None, "null_value") else getattr(parsed, kind)


def _wrapped(parsed: Any) -> object:
    return parsed.value


WELL_KNOWN: dict[str, Callable[[Any], object]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _json,
    "confluent.type.Decimal": _decimal,
    **{
        f"google.protobuf.{kind}Value": _wrapped
        for kind in (
            "Double",
            "Float",
            "Int64",
            "UInt64",
            "Int32",
            "UInt32",
            "Bool",
            "String",
            "Bytes",
        )
    },
}
"""Functions that convert messages of these types to the values that they represent."""
