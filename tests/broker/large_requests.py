"""Requests with the maximal number of elements, built from their declarations."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.badinput.made import made
from trimaran.broker.partitions.leader import ACKS_ALL
from trimaran.wire.codec.plan import FieldPlan, plan_struct
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.schema import Message, Struct
from trimaran.wire.transport.requests.handles import Handled

Path = tuple[str, ...]


def array_paths(cls: type[Struct], version: int) -> Iterator[Path]:
    """Returns the paths of a message's arrays, as field names; outer arrays first."""
    plan = plan_struct(cls, version)
    for field in (*plan.plain, *plan.tagged):
        if field.shape.item is not None:
            yield (field.name,)
            if field.shape.item.struct is not None:
                for rest in array_paths(field.shape.item.struct, version):
                    yield (field.name, *rest)


def largest_request(handled: Handled, path: Path, count: int) -> Message:
    """Returns a request with `count` elements in the array at `path`, or with as many as are handled."""

    def of(count: int) -> Message:
        return large_request(handled.request, handled.versions.high, path, count)

    return of(min(count, legal_count(handled, of)))


def legal_count(handled: Handled, of: Callable[[int], Message]) -> int:
    """Returns how many elements the array filled by `of` may have: the elements of enclosing and nested arrays count
    too.
    """
    version = handled.versions.high

    def elements(count: int) -> int:
        return handled.request.decode_counted(bytes(of(count).encode(version)), version)[2]

    few, more = elements(10), elements(20)
    return 10 + (handled.elements_max - few) * 10 // (more - few)


def large_request(cls: type[Message], version: int, path: Path, count: int) -> Message:
    """Returns a request with `count` elements in the array at `path`, one in enclosing arrays, and none in the rest."""
    message = made(cls, version)
    vary(message, version, 0)
    if isinstance(message, ProduceRequest):
        message.acks = ACKS_ALL  # a request of zeros would get no response
    _fill(message, version, path, count)
    return message


def _fill(message: Struct, version: int, path: Path, count: int) -> None:
    plan = plan_struct(type(message), version)
    field = next(entry for entry in (*plan.plain, *plan.tagged) if entry.name == path[0])
    setattr(message, path[0], _items(field, version, path[1:], count))


def _items(field: FieldPlan, version: int, rest: Path, count: int) -> list:
    shape = field.shape.item
    if shape.struct is None:
        return [_scalar(shape.wire.name, number) for number in range(1 if rest else count)]
    pattern = made(shape.struct, version)
    if rest:
        vary(pattern, version, 0)
        _fill(pattern, version, rest, count)
        return [pattern]
    items = [pattern.replace() for _ in range(count)]
    for number, item in enumerate(items):
        vary(item, version, number)
    return items


def vary(message: Struct, version: int, number: int) -> None:
    """Makes the element differ from those with other numbers."""
    for name, wire_name in _varied(type(message), version):
        if wire_name == "string":
            setattr(message, name, f"{name[:1]}{number}")
        elif number:
            setattr(message, name, number)


def _varied(cls: type[Struct], version: int) -> list[tuple[str, str]]:
    key = (cls, version)
    if key not in _VARIED:
        wires = [(entry.name, entry.shape.wire) for entry in plan_struct(cls, version).plain]
        _VARIED[key] = [
            (name, wire.name)
            for name, wire in wires
            if wire is not None and wire.name in ("string", "int32")
        ]
    return _VARIED[key]


_VARIED: dict[tuple[type[Struct], int], list[tuple[str, str]]] = {}


def _scalar(wire_name: str, number: int):
    match wire_name:
        case "string":
            return f"n{number}"
        case "uuid":
            return number.to_bytes(16, "big")
        case "bytes":
            return b"%d" % number
        case _:
            return number % 128


def repeating_request(
    cls: type[Message], version: int, path: Path, count: int, names: Mapping[str, Any]
) -> Message:
    """Returns a request with the same element `count` times in the array at `path`, and one element in enclosing and
    nested arrays; fields called one of `names` have these values.
    """
    message = made(cls, version)
    if isinstance(message, ProduceRequest):
        message.acks = ACKS_ALL
    _name(message, version, names)
    _repeat(message, version, path, count, names)
    return message


def _name(message: Struct, version: int, names: Mapping[str, Any]) -> None:
    plan = plan_struct(type(message), version)
    for entry in plan.plain:
        if entry.shape.wire is not None and entry.name in names:
            setattr(message, entry.name, names[entry.name])


def _repeat(
    message: Struct, version: int, path: Path, count: int, names: Mapping[str, Any]
) -> None:
    plan = plan_struct(type(message), version)
    for field in (*plan.plain, *plan.tagged):
        if field.shape.item is None or (path and field.name != path[0]):
            continue
        shape = field.shape.item
        if shape.struct is None:
            item = names.get(field.name, _scalar(shape.wire.name, 0))
            if item is None and path:  # otherwise the field stays null
                item = _scalar(shape.wire.name, 0)
        else:
            item = made(shape.struct, version)
            _name(item, version, names)
            _repeat(item, version, path[1:], count, names)
        if item is not None:
            setattr(message, field.name, [item] * (count if len(path) == 1 else 1))
