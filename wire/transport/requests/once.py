"""Removes repeated items of a request; otherwise each repetition would be looked up and answered.

This applies to requests whose results are found by name, also in Apache Kafka. If Kafka refuses a repeated name, or
clients find results by position, handlers see every item.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

Key = Callable[[Any], Hashable]


def itself(item: Any) -> Hashable:
    """Returns the key of an item that is a name itself."""
    found: Hashable = item
    return found


@dataclass(slots=True, frozen=True)
class Once:
    """The path of the items, `"groups"` or `"topics.partitions"`. Only the first of the items with the same `key` is
    kept, or the last one if `last`. If there are two levels, the inner items of equal items are merged, and reduced by
    `inner_key`.
    """

    asked: str
    key: Key = itself
    inner_key: Key = itself
    last: bool = False

    def __call__(self, request: Any) -> Any:
        """Returns the request without repeated items."""
        outer, _, inner = self.asked.partition(".")
        items = getattr(request, outer)
        if not items or (len(items) == 1 and not inner):
            return request
        if inner:
            return request.replace(**{outer: self._merged(items, inner)})
        distinct = self._distinct(items, self.key)
        return request if len(distinct) == len(items) else request.replace(**{outer: distinct})

    def _distinct(self, items: list[Any], key: Key) -> list[Any]:
        """Returns the distinct items, in order of first occurrence."""
        if key is itself:
            return list(dict.fromkeys(items))
        found: dict[Hashable, Any] = {}
        for item in items:
            if self.last:
                found[key(item)] = item
            else:
                found.setdefault(key(item), item)
        return list(found.values())

    def _merged(self, items: list[Any], inner: str) -> list[Any]:
        first: dict[Hashable, Any] = {}
        inner_items: dict[Hashable, list[Any]] = {}
        for item in items:
            key = self.key(item)
            first.setdefault(key, item)
            inner_items.setdefault(key, []).extend(getattr(item, inner))
        return [
            item.replace(**{inner: self._distinct(inner_items[key], self.inner_key)})
            for key, item in first.items()
        ]
