"""The shape of an Avro schema: whether its types are recursive, and whether small values may grow without limit.

An array of nulls takes no bytes for its items, so ten bytes can announce 2**60 of them. If records of nulls are nested,
the number of values may double with each level. Such schemas are refused; the values of all other schemas are bounded
by the bytes of the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trimaran.wire.values.failures import UnusableSchema

NESTING_MAX = 100
"""The maximum depth of a schema. Values of types that are not recursive are not deeper: no stack overflows."""
FREE_VALUES_MAX = 1_000
"""The maximum number of values inside a value that take no bytes: records and nulls among its fields."""


@dataclass
class AvroShape:
    """Walks a parsed schema; `named` has its named types. `recursive` is known after `check`."""

    named: dict[str, Any]
    recursive: bool = False
    _known: dict[str, tuple[int, bool]] = field(default_factory=dict)

    def check(self, schema: Any) -> None:
        """Raises UnusableSchema for a schema whose values may grow without limit."""
        self._visit(schema, ())

    def _visit(self, schema: Any, path: tuple[str, ...]) -> tuple[int, bool]:
        """Returns the number of values in an instance that take no bytes, and whether the instance takes any."""
        if len(path) > NESTING_MAX:
            raise UnusableSchema(f"the schema nests more than {NESTING_MAX} types: flatten it")
        if isinstance(schema, list):
            branches = [self._visit(branch, (*path, "[union]")) for branch in schema]
            return max((free for free, _ in branches), default=0), True
        if isinstance(schema, str) and schema in self.named:
            return self._named(schema, path)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, path)
        if kind == "fixed":
            return (0, True) if schema["size"] else (1, False)
        if kind == "array" and not self._visit(schema["items"], (*path, "[array]"))[1]:
            raise UnusableSchema(
                "the schema has an array whose items take no bytes, so that a few bytes may announce any number: "
                "give the items a field"
            )
        if kind == "map":
            self._visit(schema["values"], (*path, "[map]"))
        return (1, False) if kind == "null" else (0, True)

    def _named(self, name: str, path: tuple[str, ...]) -> tuple[int, bool]:
        if name in path:
            self.recursive = True
            return 0, True
        return self._visit(self.named[name], path)

    def _record(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[int, bool]:
        name = schema["name"]
        if name not in self._known:
            fields = [self._visit(each["type"], (*path, name)) for each in schema["fields"]]
            free = 1 + sum(free for free, _ in fields)
            if free > FREE_VALUES_MAX:
                raise UnusableSchema(
                    f"record {name} has {free} records and nulls in one value, and at most {FREE_VALUES_MAX} are "
                    "read: divide it"
                )
            self._known[name] = free, any(takes for _, takes in fields)
        return self._known[name]
