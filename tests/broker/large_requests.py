"""Requests with as many elements as they may have, made of their declarations alone."""

from collections.abc import Iterator

from tests.badinput.made import made
from wire.codec.plan import FieldPlan, plan_struct
from wire.schema import Message, Struct

Path = tuple[str, ...]


def array_paths(cls: type[Struct], version: int) -> Iterator[Path]:
    """The arrays of a message, each by the fields that lead to it; outer ones first."""
    plan = plan_struct(cls, version)
    for field in (*plan.plain, *plan.tagged):
        if field.shape.item is not None:
            yield (field.name,)
            if field.shape.item.struct is not None:
                for rest in array_paths(field.shape.item.struct, version):
                    yield (field.name, *rest)


def large_request(cls: type[Message], version: int, path: Path, count: int) -> Message:
    """With `count` elements in the array at `path`, one in those around it, and none in others."""
    return _filled(cls, version, path, count, 0)


def _filled(cls: type[Struct], version: int, path: Path, count: int, number: int) -> Struct:
    message = made(cls, version)
    plan = plan_struct(cls, version)
    for field in plan.plain:
        if field.shape.wire is not None and field.shape.wire.name == "string":
            setattr(message, field.name, f"{field.name[:1]}{number}")
        elif field.shape.wire is not None and field.shape.wire.name == "int32" and number:
            setattr(message, field.name, number)
    if path:
        field = next(one for one in (*plan.plain, *plan.tagged) if one.name == path[0])
        size = count if len(path) == 1 else 1
        items = [_item(field, version, path[1:], count, index) for index in range(size)]
        setattr(message, field.name, items)
    return message


def _item(field: FieldPlan, version: int, rest: Path, count: int, number: int):
    shape = field.shape.item
    if shape.struct is not None:
        return _filled(shape.struct, version, rest, count, number)
    match shape.wire.name:
        case "string":
            return f"n{number}"
        case "uuid":
            return number.to_bytes(16, "big")
        case "bytes":
            return b"%d" % number
        case _:
            return number % 128
