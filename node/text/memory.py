"""How much memory a text of a client takes, so that what is kept by ids that clients choose has a bound."""

from __future__ import annotations


def text_bytes(text: str) -> int:
    """Returns the most that the characters of a text take: Python gives each as much as the widest of them needs."""
    return len(text) if text.isascii() else 4 * len(text)
