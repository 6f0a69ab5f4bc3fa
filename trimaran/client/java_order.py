"""In which order a Java tool tells what it keeps in a `HashMap`: part of what scripts see of it."""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.wire.java_hash import java_hash

_LEAST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def java_hash_order(names: Sequence[str]) -> list[str]:
    """As `java.util.HashMap` iterates after these, all different, were put in one by one: by bucket, and in it by age.

    It doubles its buckets whenever they are more than three quarters full. Of fewer than eight keys in a bucket, as
    always with tens of names: more would be a tree.
    """
    buckets = _LEAST_BUCKETS
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """`HashMap.hash`: the upper half counts, too."""
    code = java_hash(name) & _WORD
    return code ^ (code >> 16)
