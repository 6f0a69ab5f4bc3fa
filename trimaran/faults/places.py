"""The items of a request, and the places of their error codes in a response: read, removed, answered, merged.

An item is a dictionary of roles: `{"topic": "orders", "partition": 0}`. A role is `ANY` if the request names all, such
as a null list of topics. The table is in `trimaran.faults.place_table`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from trimaran.faults.place_table import LINES
from trimaran.wire.codec.declarations import Field, Struct
from trimaran.wire.codec.plan import Shape, shape_of
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey
from trimaran.wire.schema import Message

Roles = dict[str, Any]
ELEMENT = "*"
POSITION = "#"
ERROR_FIELDS = ("error_code", "partition_error_code")


class _Any:
    """The value of a role that a request leaves open: all topics, all partitions."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()

# Values of fields beside an error, if they differ from the defaults of the schema. Source: Kafka's error responses.
_BESIDE_ERRORS: Mapping[str, Any] = {
    "base_offset": -1,
    "committed_offset": -1,
    "expiry_timestamp_ms": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "leader_id": -1,
    "log_append_time_ms": -1,
    "node_id": -1,
    "producer_epoch": -1,
    "producer_id": -1,
    "generation_id": -1,
    "port": -1,
}


class PlaceLevel(NamedTuple):
    """An array of a message, and the roles of the fields of its elements: pairs of role and field."""

    array: str
    fields: tuple[tuple[str, str], ...]

    def roles_of(self, element: Any, position: int) -> Roles:
        return {
            role: position
            if field == POSITION
            else element
            if field == ELEMENT
            else getattr(element, field)
            for role, field in self.fields
        }


class ItemPlace(NamedTuple):
    """One line of the table."""

    request: tuple[PlaceLevel, ...]
    response: tuple[PlaceLevel, ...]

    @property
    def roles(self) -> frozenset[str]:
        """Returns the roles by which a rule may choose among the items of this place."""
        return _roles(self.request) | _roles(self.response)

    @property
    def needs_response(self) -> bool:
        """Whether the request does not name every item, so that only a response shows them."""
        return not self.request or "partition" in _roles(self.response) - _roles(self.request)

    def is_in(self, api: int, version: int) -> bool:
        """Whether both messages of this version have the arrays."""
        sides = ((REQUESTS, self.request), (RESPONSES, self.response))
        return all(
            version in _fields(table[api])[levels[0].array].versions
            for table, levels in sides
            if levels
        )


def _roles(levels: Sequence[PlaceLevel]) -> frozenset[str]:
    return frozenset(role for level in levels for role, _ in level.fields)


_LEVEL = re.compile(r"(\w+)\(([^)]*)\)\.?")


def _levels(text: str) -> tuple[PlaceLevel, ...]:
    found = []
    for array, fields in _LEVEL.findall(text):
        pairs = (pair.partition("=") for pair in fields.split())
        found.append(PlaceLevel(array, tuple((role, field or role) for role, _, field in pairs)))
    return tuple(found)


@cache
def _table() -> Mapping[str, tuple[ItemPlace, ...]]:
    table: dict[str, list[ItemPlace]] = {}
    for line in LINES.strip().splitlines():
        api, _, path = line.partition(" ")
        request, _, response = path.partition("->")
        table.setdefault(api, []).append(ItemPlace(_levels(request), _levels(response)))
    return {api: tuple(places) for api, places in table.items()}


@cache
def places_of(api: int, version: int) -> tuple[ItemPlace, ...]:
    """Returns the places that messages of a version have, the preferred one first."""
    return tuple(p for p in _table().get(ApiKey(api).spelling, ()) if p.is_in(api, version))


@cache
def _fields(cls: Any) -> Mapping[str, Field]:
    return {field.name: field for field in cls.__fields__}


@cache
def element_of(cls: Any, array: str) -> type[Struct] | None:
    """Returns the struct in an array of a struct; None if its elements are primitive."""
    item = shape_of(_fields(cls)[array].annotation)[0].item
    return item.struct if item is not None else None


@cache
def error_field(cls: Any) -> Field | None:
    """Returns the field of an error code in a struct; None if there is none."""
    return next((_fields(cls)[name] for name in ERROR_FIELDS if name in _fields(cls)), None)


def has_top_error(api: int, version: int) -> bool:
    """Whether a response of this version has an error code at its top."""
    field = error_field(RESPONSES[api])
    return field is not None and version in field.versions


# Items


def items_of(request: Message, version: int) -> list[Roles]:
    """Returns the items that a request names; the empty list if the API has none, or the request names none."""
    return [
        item
        for place in _deepest(request.KEY, version)
        for item in read_items(request, place.request)
    ]


def _deepest(api: int, version: int) -> list[ItemPlace]:
    """Returns the places with the most levels of each array: an item is in one of them."""
    by_array: dict[str, ItemPlace] = {}
    for place in places_of(api, version):
        if place.request:
            known = by_array.get(place.request[0].array)
            if known is None or len(known.request) < len(place.request):
                by_array[place.request[0].array] = place
    return list(by_array.values())


def read_items(message: Struct, levels: Sequence[PlaceLevel]) -> Iterator[Roles]:
    """Yields the items of nested arrays, each with the roles of all levels."""
    if not levels:
        return
    level, inner = levels[0], levels[1:]
    elements = getattr(message, level.array)
    if elements is None:
        yield dict.fromkeys(_roles(levels), ANY)
        return
    for position, element in enumerate(elements):
        roles = level.roles_of(element, position)
        if not inner:
            yield roles
        else:
            for deeper in read_items(element, inner):
                yield roles | deeper


def item_key(item: Roles) -> tuple[Any, ...]:
    """Returns the values of an item's roles in a hashable form."""
    return tuple(map(_hashable, item.values()))


def without_items(
    request: Message, version: int, is_removed: Callable[[Roles], bool]
) -> Message | None:
    """Returns a copy of a request without some items; None if no item is left."""
    left, rest = False, request
    for place in _deepest(request.KEY, version):
        rest, has_some = _filtered(rest, place.request, {}, is_removed)
        left = left or has_some
    return rest if left else None


def _filtered(
    struct: Any, levels: Sequence[PlaceLevel], outer: Roles, is_removed: Callable[[Roles], bool]
) -> tuple[Any, bool]:
    """Returns a copy of `struct`, and whether an item is left in it."""
    level, inner = levels[0], levels[1:]
    kept: list[Any] = []
    elements = getattr(struct, level.array)
    if elements is None:
        return struct, True
    for position, element in enumerate(elements):
        roles = outer | level.roles_of(element, position)
        if not inner:
            if not is_removed(roles):
                kept.append(element)
            continue
        copy, has_some = _filtered(element, inner, roles, is_removed)
        if has_some or not getattr(element, inner[0].array):
            kept.append(copy)
    return struct.replace(**{level.array: kept}), bool(kept)


# Errors


def top_error(api: int, code: ErrorCode) -> Message:
    """Returns a response with an error code at its top, and no items."""
    response: Message = zero_struct(RESPONSES[api])
    set_error(response, code)
    return response


def add_errors(
    response: Message, place: ItemPlace, items: Iterable[Roles], code: ErrorCode
) -> None:
    """Adds items with an error code to a response, beside the items that it has."""
    made: dict[tuple[Any, ...], Any] = {}
    for item in items:
        parent: Any = response
        path: tuple[Any, ...] = ()
        for level in place.response:
            path = (*path, *(_hashable(item.get(role)) for role, _ in level.fields))
            element = made.get(path)
            if element is None:
                element = made[path] = _new_element(parent, level, item)
                getattr(parent, level.array).append(element)
            parent = element
        set_error(parent, code)


def _new_element(parent: Any, level: PlaceLevel, item: Roles) -> Any:
    of: Any = type(parent)
    cls = element_of(of, level.array)
    assert cls is not None
    element = zero_struct(cls)
    for role, field in level.fields:
        if field != POSITION and role in item:
            setattr(
                element, field, _converted(item[role], shape_of(_fields(cls)[field].annotation)[0])
            )
    if getattr(parent, level.array) is None:
        setattr(parent, level.array, [])
    return element


def _converted(value: Any, shape: Shape) -> Any:
    """Returns a value of a request as the type of the response's field: the structs of both have the same fields."""
    if shape.item is None or shape.item.struct is None:
        return value
    cls = shape.item.struct
    return [cls(**{f.name: getattr(each, f.name) for f in cls.__fields__}) for each in value]


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list) else value


def rewrite_errors(
    response: Message, place: ItemPlace, is_chosen: Callable[[Roles], bool], code: ErrorCode
) -> int:
    """Sets an error code in the chosen items of a response; returns their number."""
    return _rewritten(response, place.response, {}, is_chosen, code)


def _rewritten(
    struct: Any,
    levels: Sequence[PlaceLevel],
    outer: Roles,
    is_chosen: Callable[[Roles], bool],
    code: ErrorCode,
) -> int:
    level, inner, count = levels[0], levels[1:], 0
    for position, element in enumerate(getattr(struct, level.array) or ()):
        roles = outer | level.roles_of(element, position)
        if inner:
            count += _rewritten(element, inner, roles, is_chosen, code)
        elif is_chosen(roles):
            set_error(element, code)
            count += 1
    return count


def set_error(struct: Any, code: ErrorCode) -> None:
    """Sets the error code of a struct, and the fields beside it to what Kafka sends with an error."""
    cls: Any = type(struct)
    field = error_field(cls)
    assert field is not None, f"{cls.__name__} has no error code"
    setattr(struct, field.name, int(code))
    for f in cls.__fields__:
        if f.name in _BESIDE_ERRORS:
            setattr(struct, f.name, _BESIDE_ERRORS[f.name])
        elif f.name == "records":
            setattr(struct, f.name, b"")


def zero_struct(cls: type[Any]) -> Any:
    """Returns a struct with its defaults, and zeros in required fields."""
    return cls(**{f.name: _zero(shape_of(f.annotation)[0]) for f in cls.__fields__ if f.required})


def _zero(shape: Shape) -> Any:
    if shape.item is not None:
        return []
    if shape.struct is not None:
        return zero_struct(shape.struct)
    assert shape.wire is not None
    return b"" if shape.wire.name == "records" else shape.wire.zero
