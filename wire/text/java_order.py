"""The order in which Java iterates over a `HashMap`, as scripts see it in output of tools, and clients in responses."""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.wire.java_hash import java_hash

_LEAST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def java_hash_order(names: Sequence[str], least_buckets: int = _LEAST_BUCKETS) -> list[str]:
    """Returns the keys in the order of a `java.util.HashMap` into which these, all different, were put one by one: by
    bucket, and in it by age.

    A bucket has fewer than eight keys, as always with tens of names: a larger one would be a tree.
    """
    buckets = least_buckets
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: spread(name) & (buckets - 1))


def spread(name: str) -> int:
    """Returns `HashMap.hash`, unsigned: the upper half of the hash code counts, too."""
    code = java_hash(name) & _WORD
    return code ^ (code >> 16)
