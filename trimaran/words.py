"""Numbers with their nouns, and entities of quotas, as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.node.words import plural_of


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 directories`, `2 keys`, `3 analyses`, `4 batches`, `1,200 partitions`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural_of(noun)}"


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Whom a quota is for, as commands take it: `user=alice client-id=etl`; a type without a name is its default."""
    return " ".join(
        kind if entity[kind] is None else f"{kind}={entity[kind]}"
        for kind in sorted(entity, key=lambda kind: (kind != "user", kind))
    )
