"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# the cutoff of difflib: `--partitons` is --partitions, but `--nope` is not --property
_SIMILAR = 0.7
# The maximum of names that are compared: comparing 10,000 takes 50 ms.
NAMES_MAX = 10_000


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str | None:
    """Returns the names that a word may have been meant as, in a question; None if none is similar."""
    names = [name for name, _ in zip(known, range(NAMES_MAX), strict=False)]
    found = difflib.get_close_matches(word, names, n=most, cutoff=_SIMILAR)
    return f"did you mean {' or '.join(found)}?" if found else None
