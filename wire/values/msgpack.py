"""Reads and writes values in MessagePack, according to its specification.

Extensions are objects `{"type": 5, "data": "…"}` in JSON, except timestamps. Keys of maps become strings, as JSON
requires.
"""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

from trimaran.wire.values.failures import UndecodedValue, UnencodedValue

NESTING_MAX = 100
"""The maximum depth of arrays and maps. One byte may begin an array, and each level takes a stack frame."""

_TIMESTAMP = -1
_FIXED = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# By first byte: the kind of the value, and the number of bytes of its length.
_SIZED = {
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def decode(data: memoryview) -> object:
    """Returns the value with Python's types.

    Raises:
        UndecodedValue: the bytes are not exactly one value.
    """
    reader = _MsgpackReader(data)
    value = reader.value(0)
    if reader.at < len(data):
        raise UndecodedValue(
            f"{len(data) - reader.at} of {len(data)} bytes are left after the value: is it MessagePack?"
        )
    return value


class _MsgpackReader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def _take(self, count: int) -> memoryview:
        taken = self._data[self.at : self.at + count]
        if len(taken) < count:
            raise UndecodedValue(
                f"the value ends within its {len(self._data)} bytes: is it MessagePack?"
            )
        self.at += count
        return taken

    def value(self, depth: int) -> object:
        """Reads one value."""
        if depth > NESTING_MAX:
            raise UndecodedValue(f"more than {NESTING_MAX} arrays and maps are in each other")
        first = self._take(1)[0]
        if first <= 0x7F or first >= 0xE0:
            return first if first <= 0x7F else first - 0x100
        if first <= 0x8F:
            return self._of("map", first & 0x0F, depth)
        if first <= 0x9F:
            return self._of("array", first & 0x0F, depth)
        if first <= 0xBF:
            return self._of("str", first & 0x1F, depth)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _FIXED:
            (found,) = struct.unpack(_FIXED[first], self._take(struct.calcsize(_FIXED[first])))
            return found
        if first in _FIXED_EXTENSIONS:
            return self._of("ext", _FIXED_EXTENSIONS[first], depth)
        if first not in _SIZED:
            raise UndecodedValue(f"no value begins with byte {first:#x}: is it MessagePack?")
        kind, width = _SIZED[first]
        return self._of(kind, int.from_bytes(self._take(width), "big"), depth)

    def _of(self, kind: str, size: int, depth: int) -> object:
        if kind == "str":
            return self._text(size)
        if kind == "bin":
            return bytes(self._take(size))
        if kind == "ext":
            (number,) = struct.unpack(">b", self._take(1))
            return _extension(number, bytes(self._take(size)))
        # An item takes at least a byte, so a count that exceeds the remaining bytes raises an error at the first
        # missing item.
        if kind == "array":
            return [self.value(depth + 1) for _ in range(size)]
        return {_key(self.value(depth + 1)): self.value(depth + 1) for _ in range(size)}

    def _text(self, size: int) -> str:
        try:
            return bytes(self._take(size)).decode()
        except UnicodeDecodeError:
            raise UndecodedValue("a string is not UTF-8: see the value's producer") from None


def _key(key: object) -> str:
    if isinstance(key, dict | list):
        raise UndecodedValue("a key of a map is a map or an array, which JSON has not")
    if isinstance(key, bytes):
        return key.hex()
    return str(key).lower() if isinstance(key, bool) else "null" if key is None else str(key)


def _extension(number: int, data: bytes) -> object:
    if number != _TIMESTAMP or len(data) not in (4, 8, 12):
        return {"type": number, "data": data}
    if len(data) == 4:
        nanos, seconds = 0, int.from_bytes(data, "big")
    elif len(data) == 8:
        both = int.from_bytes(data, "big")
        nanos, seconds = both >> 34, both & ((1 << 34) - 1)
    else:
        nanos, seconds = struct.unpack(">Iq", data)
    try:
        return _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise UndecodedValue("a timestamp is beyond the years of Python") from None


def encode(value: object) -> bytes:
    """Returns the shortest encoding of a value in its JSON form.

    Raises:
        UnencodedValue: an integer has more than 64 bits, or the value is nested too deeply.
    """
    out = bytearray()
    _write(out, value, 0)
    return bytes(out)


def _write(out: bytearray, value: Any, depth: int) -> None:
    if depth > NESTING_MAX:
        raise UnencodedValue(f"more than {NESTING_MAX} arrays and maps are in each other")
    match value:
        case None:
            out.append(0xC0)
        case bool():
            out.append(0xC3 if value else 0xC2)
        case int():
            out += _integer(value)
        case float():
            out += b"\xcb" + struct.pack(">d", value)
        case str():
            data = _utf8(value)
            out += _head(len(data), 0xA0, 0x1F, {1: 0xD9, 2: 0xDA, 4: 0xDB}) + data
        case list():
            out += _head(len(value), 0x90, 0x0F, {2: 0xDC, 4: 0xDD})
            for each in value:
                _write(out, each, depth + 1)
        case dict():
            out += _head(len(value), 0x80, 0x0F, {2: 0xDE, 4: 0xDF})
            for name, each in value.items():
                _write(out, name, depth + 1)
                _write(out, each, depth + 1)
        case _:
            raise UnencodedValue(f"{type(value).__name__} is no type of JSON")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnencodedValue(f"{text[:80]!r} is no string of Unicode") from None


def _head(size: int, fixed: int, fixed_max: int, by_width: dict[int, int]) -> bytes:
    if size <= fixed_max:
        return bytes([fixed | size])
    width = next(width for width in by_width if size < 1 << (8 * width))
    return bytes([by_width[width]]) + size.to_bytes(width, "big")


def _integer(value: int) -> bytes:
    if -32 <= value <= 127:
        return struct.pack(">b", value)
    codes = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code in codes:
        try:
            return bytes([code]) + struct.pack(_FIXED[code], value)
        except struct.error:
            continue
    raise UnencodedValue(f"{str(value)[:40]} has more than 64 bits")
