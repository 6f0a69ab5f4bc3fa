# cython: language_level=3, boundscheck=True, wraparound=False
"""Java's hash code of a string, in C if the package was built with a compiler.

Ids of groups and transactions have up to 32,767 bytes, and each request computes the hash to find the id's partition: C
takes 0.03 ms for the longest, Python 2 ms. Cython compiles this file; the types for callers are in `java_hash.pyi`.
"""

from __future__ import annotations

try:
    import cython

    COMPILED = cython.compiled
except ImportError:
    COMPILED = False


def java_hash(text: str):
    """Returns `String.hashCode()`, computed over UTF-16 code units in signed 32 bits."""
    mask: cython.ulonglong = 0xFFFFFFFF
    value: cython.ulonglong = 0
    point: cython.ulonglong
    for character in text:
        point = ord(character)
        if point > 0xFFFF:
            value = 31 * value + 0xD800 + ((point - 0x10000) >> 10)
            point = 0xDC00 + (point & 0x3FF)
        value = (31 * value + point) & mask
    return value - (1 << 32) if value >> 31 else value
