"""Numbers with their nouns, as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 directories`, `1,200 partitions`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {plural}"
