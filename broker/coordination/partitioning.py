"""Which partition of an internal topic a key (a group id, a transactional id) lives in: by Java's hash of it."""

from __future__ import annotations

from trimaran.wire.java_hash import java_hash


def partition_for(key: str, partition_count: int) -> int:
    """`Utils.abs(hash) % count`; the one number without a positive counterpart counts as 0."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
