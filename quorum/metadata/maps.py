"""A helper for persistent maps. See `immutables` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from immutables import Map

K = TypeVar("K")
V = TypeVar("V")


def updated(present: Map[K, V], changes: Mapping[K, V | None]) -> Map[K, V]:
    """Returns `present` with `changes`; None removes a key, which need not exist."""
    if not changes:
        return present
    mutation = present.mutate()
    for key, value in changes.items():
        if value is None:
            mutation.pop(key, None)
        else:
            mutation[key] = value
    return mutation.finish()
