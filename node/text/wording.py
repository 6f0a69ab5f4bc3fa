"""Human-readable text: numbers with their nouns, and quota entities."""

from __future__ import annotations

from collections.abc import Mapping


def counted(number: int, noun: str) -> str:
    """Returns `1 record`, `2 directories`, `2 keys`, `3 analyses`, `4 batches`, `1,200 partitions`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Returns the plural: `analyses`, `batches`, `directories`, `keys`; otherwise with an s."""
    if noun.endswith("sis"):
        return f"{noun[:-2]}es"
    if noun.endswith(("atch", "ss")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Returns the entity of a quota in the syntax of commands: `user=alice client-id=etl`; a type without a name is its
    default.
    """
    return " ".join(
        kind if entity[kind] is None else f"{kind}={entity[kind]}"
        for kind in sorted(entity, key=lambda kind: (kind != "user", kind))
    )
