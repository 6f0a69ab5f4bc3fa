"""Escapes text from clients and peers for one line: the name of a client or peer must not look like a line of ours, nor
move a terminal's cursor.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """Returns the text with every non-printable character escaped: line breaks of all kinds, other controls, marks of
    direction.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def printable(text: str) -> str:
    """Returns lines with every non-printable character escaped except tabs and line breaks."""
    if text.isprintable():
        return text
    return "".join(
        character if character in "\n\t" or character.isprintable() else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def bounded(text: str, characters_max: int) -> str:
    """Returns the beginning of the text, and the number of characters that were cut off."""
    if len(text) <= characters_max:
        return text
    return f"{text[:characters_max]}… ({len(text) - characters_max} more characters)"
