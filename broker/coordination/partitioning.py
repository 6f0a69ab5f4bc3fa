"""Which partition of an internal topic a key (a group id, a transactional id) lives in: by Java's hash of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in signed 32 bits."""
    value = 0
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _utf16_units(text: str) -> Iterator[int]:
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        yield unit


def partition_for(key: str, partition_count: int) -> int:
    """`Utils.abs(hash) % count`; the one number without a positive counterpart counts as 0."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
