"""Conditions on fields of a message: `acks == 1`, `topics.partitions.fetch_offset > 100`, `client_software_name ~ k*`.

A path names fields of nested structs. An array on the way means any of its elements, and `name.length` is the number of
elements or bytes of a field.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from trimaran.faults.plan_error import PlanError, unknown
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import Shape, shape_of

LENGTH = "length"


def _matches_glob(value: Any, pattern: Any) -> bool:
    return fnmatchcase(str(value), str(pattern))


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "~": _matches_glob,
}
_CONDITION = re.compile(r"\s*([\w.]+)\s*(==|!=|<=|>=|<|>|~)\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A comparison of one field with a value; it holds if it holds for any value at the path."""

    path: str
    comparison: str
    value: Any

    def holds(self, message: Struct) -> bool:
        compare = _COMPARISONS[self.comparison]
        return any(self._compared(compare, value) for value in values_at(message, self.path))

    def _compared(self, compare: Callable[[Any, Any], bool], value: Any) -> bool:
        try:
            return compare(value, self.value)
        except TypeError:  # null is neither less nor more than a number
            return False

    def __str__(self) -> str:
        return f"{self.path} {self.comparison} {json.dumps(self.value)}"


def parse_condition(text: str) -> FieldCondition:
    """Reads a condition: its value is JSON or a bare word. Raises PlanError: it has another form."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise PlanError(
            f"{text!r} is not a condition",
            "write a field, ==, !=, <, <=, >, >= or ~, and a value",
            key="where",
        )
    path, comparison, value = found.groups()
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    return FieldCondition(path, comparison, parsed)


def values_at(message: Any, path: str) -> Iterator[Any]:
    """Yields the values at a path that `check_path` accepts; ids in Kafka's text form, bytes unchanged."""
    name, _, rest = path.partition(".")
    value = getattr(message, name, None)
    if not rest:
        yield from value if isinstance(value, list) else [_plain(value)]
    elif rest == LENGTH:
        yield 0 if value is None else len(value)
    else:
        for element in value if isinstance(value, list) else [value]:
            if element is not None:
                yield from values_at(element, rest)


def _plain(value: Any) -> Any:
    is_id = isinstance(value, bytes) and len(value) == 16
    return uuid_to_text(value) if is_id else value


def check_path(cls: type[Struct], path: str, key: str) -> Shape:
    """Returns the type of the field that a path names. Raises PlanError: there is no such field."""
    name, _, rest = path.partition(".")
    fields = {field.name: field for field in cls.__fields__}
    if name not in fields:
        raise unknown(f"field of {cls.__name__}", name, fields, key)
    shape = shape_of(fields[name].annotation)[0]
    if not rest or rest == LENGTH:
        return shape
    while shape.item is not None:
        shape = shape.item
    if shape.struct is None:
        raise PlanError(
            f"the field {name} of {cls.__name__} has no fields", f"write {name} alone", key=key
        )
    return check_path(shape.struct, rest, key)
