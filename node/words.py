"""Plurals of the nouns that nodes, reports and commands count."""

from __future__ import annotations


def plural_of(noun: str) -> str:
    """`analyses`, `batches`, `directories`, but `keys`; else with an s."""
    if noun.endswith("sis"):
        return f"{noun[:-2]}es"
    if noun.endswith(("atch", "ss")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"
