"""Members of a decoded znode, checked. Malformed ones are the fault of whoever wrote the znode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trimaran.wire.errors import RemoteProtocolError

T = TypeVar("T")


def decode_or_none(decode: Callable[[bytes | None], T], data: bytes | None) -> T | None:
    """What `decode` makes of the bytes, None when they are malformed: a znode that people damaged counts as absent."""
    try:
        return decode(data)
    except RemoteProtocolError:
        return None


def ids(values: list[object]) -> tuple[int, ...]:
    """The broker ids of a list."""
    found = tuple(value for value in values if isinstance(value, int))
    if len(found) != len(values):
        raise RemoteProtocolError("a list of broker ids with something else in it")
    return found


def member(members: dict[str, Any], name: str, kind: type[T]) -> T:
    """A member that must be there and of that type."""
    value = members.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RemoteProtocolError(f"a znode whose {name!r} is {value!r}")
    return value


def number(members: dict[str, Any], name: str) -> int:
    """A number that Kafka wrote as a text."""
    text = member(members, name, str)
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise RemoteProtocolError(f"a znode whose {name!r} is {text!r}")
    return int(text)
