"""Which partition of `__consumer_offsets` a group lives in: Java's hash of its id, as Kafka's clients never see it."""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in signed 32 bits."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """`Utils.abs(hash) % count`; the one number without a positive counterpart counts as 0."""
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
