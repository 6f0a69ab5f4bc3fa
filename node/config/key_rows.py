"""Configuration keys written as rows of text: two lines a key, for the many keys that need no code.

    NAME | KIND LOW..HIGH | DEFAULT | IMPORTANCE dynamic
        What it means.

`LOW..HIGH` bounds numbers, and either may be omitted; `null` means no default; a `dynamic` key may be altered while a
broker runs, a `per-broker` key for one broker at a time; `internal` instead of an importance hides the key from
clients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

from trimaran.node.config.config_def import Check, ConfigKey, Importance, Kind, Scope, between


def rows(text: str, *, no_effect: str = "") -> tuple[ConfigKey, ...]:
    """Returns the keys in `text`; with `no_effect`, a reason, none of them has an effect."""
    return tuple(_keys(text, no_effect))


def _keys(text: str, no_effect: str) -> Iterator[ConfigKey]:
    lines = iter(line.strip() for line in text.strip().splitlines())
    for line in lines:
        name, kind_and_bounds, default, flags = (part.strip() for part in line.split("|"))
        kind, _, bounds = kind_and_bounds.partition(" ")
        words = flags.split()
        internal = "internal" in words
        untyped = ConfigKey(name, cast(Kind, kind), None, "")
        yield ConfigKey(
            name,
            untyped.kind,
            None if default == "null" else untyped.parse(default),
            next(lines),
            _check(bounds),
            importance="low" if internal else cast(Importance, words[0]),
            scope=_scope(words),
            internal=internal,
            no_effect=no_effect,
        )


def _scope(words: list[str]) -> Scope:
    if "per-broker" in words:
        return "per-broker"
    return "cluster-wide" if "dynamic" in words else "read-only"


def _check(bounds: str) -> Check | None:
    if not bounds:
        return None
    low, _, high = bounds.partition("..")
    return between(int(low) if low else -math.inf, int(high) if high else math.inf)
