"""The iteration order of Java's `HashMap`, which is visible to scripts in the output of tools, and to clients in
responses.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.wire.java_hash import java_hash

_LEAST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def java_hash_order(names: Sequence[str], least_buckets: int = _LEAST_BUCKETS) -> list[str]:
    """Returns the distinct keys in the order of a `java.util.HashMap` to which they were added one by one: by bucket,
    and within a bucket in order of insertion.

    A bucket must have fewer than eight keys, which holds for tens of names: Java stores larger buckets as trees.
    """
    buckets = least_buckets
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: spread(name) & (buckets - 1))


def spread(name: str) -> int:
    """Returns `HashMap.hash`, unsigned: it mixes in the upper half of the hash code."""
    code = java_hash(name) & _WORD
    return code ^ (code >> 16)
