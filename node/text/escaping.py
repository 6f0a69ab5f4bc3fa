"""Text of others on one line: what a client or a peer called itself must not look like a line of ours, nor move a
terminal's cursor.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """With every character escaped that is not printed: line breaks of all kinds, other controls,
    marks of direction.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def printable(text: str) -> str:
    """Several lines with every other character escaped that is not printed; tabs and line breaks stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character in "\n\t" or character.isprintable() else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def bounded(text: str, characters_max: int) -> str:
    """Its beginning, and how much was left out."""
    if len(text) <= characters_max:
        return text
    return f"{text[:characters_max]}… ({len(text) - characters_max} more characters)"
