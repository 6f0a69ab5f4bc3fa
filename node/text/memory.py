"""The memory of a client's text, to bound data that is stored by client-chosen ids."""

from __future__ import annotations


def text_bytes(text: str) -> int:
    """Returns the maximum memory of a text's characters: Python gives each as much as the widest of them needs."""
    return len(text) if text.isascii() else 4 * len(text)
