"""Values in Avro's binary encoding, from their JSON form (`trimaran.wire.values.json_form`).

The JSON form is ambiguous: a string may be text, bytes, a decimal or a time. Therefore the schema determines the
encoding, and a union uses its first branch that the value fits. The encoding of a value is unique, because arrays and
maps are written as one block.
"""

from __future__ import annotations

import datetime as dt
import math
import reprlib
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from trimaran.wire.values.avro import SCALE_MAX, AvroSchema
from trimaran.wire.values.failures import UnencodedValue

_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def avro_bytes(schema: AvroSchema, value: object) -> bytes:
    """Returns the encoding of a value in its JSON form.

    Raises:
        UnencodedValue: the value does not fit the schema; the error names the place in the value.
    """
    out = bytearray()
    try:
        _AvroWriter(schema.named).write(out, schema.parsed, value, "the value")
    except RecursionError:
        raise UnencodedValue("the value is nested too deeply to be written") from None
    return bytes(out)


class _AvroWriter:
    """Appends values to a buffer; `named` has the named types of the schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def write(self, out: bytearray, schema: Any, value: Any, place: str) -> None:
        """Appends a value; `place` names it in errors."""
        if isinstance(schema, list):
            self._union(out, schema, value, place)
            return
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if (made := _LOGICAL.get((kind, logical))) is not None:
            value = _converted(made, value, schema, place)
        match kind:
            case "record" | "error":
                self._record(out, schema, value, place)
            case "array":
                self._array(out, schema["items"], _checked(value, list, "a list", place), place)
            case "map":
                self._map(out, schema["values"], _checked(value, dict, "an object", place), place)
            case "enum":
                if value not in schema["symbols"]:
                    raise _unfit(value, f"one of {', '.join(schema['symbols'][:20])}", place)
                out += _varint(schema["symbols"].index(value))
            case "fixed":
                data = _bytes(value, place)
                if len(data) != schema["size"]:
                    raise _unfit(value, f"{schema['size']} bytes in base64", place)
                out += data
            case _:
                out += _PRIMITIVES[kind](value, place)

    def _union(self, out: bytearray, branches: list[Any], value: Any, place: str) -> None:
        errors = []
        for number, branch in enumerate(branches):
            tried = bytearray(_varint(number))
            try:
                self.write(tried, branch, value, place)
            except UnencodedValue as error:
                if branch != "null":
                    errors.append(str(error))
                continue
            out += tried
            return
        if len(errors) == 1:
            raise UnencodedValue(errors[0])
        raise UnencodedValue(f"{place} fits no branch of its union: {'; '.join(errors)[:400]}")

    def _record(self, out: bytearray, schema: Any, value: Any, place: str) -> None:
        fields = _checked(value, dict, f"an object (record {schema['name']})", place)
        names = {each["name"] for each in schema["fields"]}
        if unknown := sorted(fields.keys() - names):
            raise UnencodedValue(
                f"{place} has the field {unknown[0]!r}, which record {schema['name']} has not; it has "
                f"{', '.join(sorted(names))[:200]}"
            )
        for each in schema["fields"]:
            inner = f"{place}.{each['name']}"
            if each["name"] in fields:
                self.write(out, each["type"], fields[each["name"]], inner)
            elif "default" in each:
                self._default(out, each, inner)
            else:
                raise UnencodedValue(f"{inner} is missing, and has no default")

    def _default(self, out: bytearray, field: Any, place: str) -> None:
        """Appends a default; that of bytes is a string of code points up to 255 (Avro's specification)."""
        kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
        plain = kind.get("type") if isinstance(kind, dict) else kind
        default = field["default"]
        if isinstance(field["type"], list):
            out += _varint(0)
        if plain in ("bytes", "fixed") and isinstance(default, str):
            data = default.encode("latin-1")
            out += data if plain == "fixed" else _varint(len(data)) + data
        elif plain in ("int", "long") and isinstance(default, int):
            out += _PRIMITIVES[plain](default, place)  # also for a logical type
        else:
            self.write(out, kind, default, place)

    def _array(self, out: bytearray, items: Any, values: list[Any], place: str) -> None:
        if values:
            out += _varint(len(values))
            for number, each in enumerate(values):
                self.write(out, items, each, f"{place}[{number}]")
        out += b"\0"

    def _map(self, out: bytearray, values: Any, members: dict[str, Any], place: str) -> None:
        if members:
            out += _varint(len(members))
            for name, each in members.items():
                out += _text(name, place)
                self.write(out, values, each, f"{place}.{name}")
        out += b"\0"


def _varint(number: int) -> bytes:
    """Returns a zigzag varint of up to 64 bits."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _unfit(value: object, wanted: str, place: str) -> UnencodedValue:
    # Every branch of a union that does not fit creates this error, so formatting the value must be cheap even for a
    # large record.
    text = value if isinstance(value, str) else reprlib.repr(value)
    return UnencodedValue(f"{place} is {text[:80]!r}, and its schema wants {wanted}")


def _checked(value: Any, kind: type, wanted: str, place: str) -> Any:
    if not isinstance(value, kind):
        raise _unfit(value, wanted, place)
    return value


def _null(value: object, place: str) -> bytes:
    if value is not None:
        raise _unfit(value, "null", place)
    return b""


def _boolean(value: object, place: str) -> bytes:
    return b"\1" if _checked(value, bool, "true or false", place) else b"\0"


def _integer(value: object, place: str, allowed: range) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise _unfit(value, f"an integer of {allowed.stop.bit_length()} bits", place)
    return _varint(value)


def _number(value: object, place: str, code: str) -> bytes:
    found = _NUMBERS.get(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _unfit(value, "a number", place)
    try:
        return struct.pack(code, found)
    except (OverflowError, struct.error):
        raise _unfit(value, "a number of its size", place) from None


def _bytes(value: object, place: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return b64decode(str(_checked(value, str, "bytes in base64", place)), validate=True)
    except (Base64Error, ValueError):
        raise _unfit(value, "bytes in base64", place) from None


def _sized_bytes(value: object, place: str) -> bytes:
    data = _bytes(value, place)
    return _varint(len(data)) + data


def _text(value: object, place: str) -> bytes:
    try:
        data = str(_checked(value, str, "a string", place)).encode()
    except UnicodeEncodeError:
        raise _unfit(value, "a string of Unicode", place) from None
    return _varint(len(data)) + data


_PRIMITIVES: Mapping[str, Callable[[Any, str], bytes]] = {
    "null": _null,
    "boolean": _boolean,
    "int": lambda value, place: _integer(value, place, _INT),
    "long": lambda value, place: _integer(value, place, _LONG),
    "float": lambda value, place: _number(value, place, "<f"),
    "double": lambda value, place: _number(value, place, "<d"),
    "bytes": _sized_bytes,
    "string": _text,
}


def _converted(made: Callable[[str, Any], object], value: Any, schema: Any, place: str) -> Any:
    """Returns the value of the underlying type for a value of a logical type."""
    wanted = f"a {schema['logicalType'].removeprefix('bounded-')} as text"
    try:
        return made(_checked(value, str, wanted, place), schema)
    except (ArithmeticError, ValueError, InvalidOperation):
        raise _unfit(value, wanted, place) from None


def _micros(text: str, *, zoned: bool) -> int:
    time = dt.datetime.fromisoformat(text)
    if (time.tzinfo is not None) != zoned:
        raise ValueError
    # A local time is counted as if it were in UTC.
    return ((time if zoned else time.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(
        microseconds=1
    )


def _micros_of_day(text: str) -> int:
    time = dt.time.fromisoformat(text)
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond


def _unscaled(text: str, schema: Any) -> bytes:
    number = Decimal(text)
    scale = schema.get("scale", 0)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -scale <= exponent <= SCALE_MAX:
        raise ValueError
    sign, digits, _ = number.as_tuple()
    unscaled: int = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    if schema["type"] == "fixed":
        return unscaled.to_bytes(schema["size"], "big", signed=True)
    bits = unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _days(text: str) -> int:
    return (dt.date.fromisoformat(text) - _EPOCH.date()).days


_LOGICAL: Mapping[tuple[str, str | None], Callable[[str, Any], object]] = {
    ("int", "date"): lambda text, _: _days(text),
    ("int", "time-millis"): lambda text, _: _micros_of_day(text) // 1000,
    ("long", "time-micros"): lambda text, _: _micros_of_day(text),
    ("long", "timestamp-millis"): lambda text, _: _micros(text, zoned=True) // 1000,
    ("long", "timestamp-micros"): lambda text, _: _micros(text, zoned=True),
    ("long", "local-timestamp-millis"): lambda text, _: _micros(text, zoned=False) // 1000,
    ("long", "local-timestamp-micros"): lambda text, _: _micros(text, zoned=False),
    ("string", "uuid"): lambda text, _: str(UUID(text)),
    ("bytes", "bounded-decimal"): _unscaled,
    ("fixed", "bounded-decimal"): _unscaled,
}
