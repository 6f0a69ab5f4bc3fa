"""Numbers with their nouns, as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 directories`, `3 analyses`, `1,200 partitions`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("sis"):
        return f"{number:,} {noun.removesuffix('is')}es"
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {plural}"
