r"""JSON exactly as Kafka wrote it into znodes: Jackson's compact form, members in the order of Scala's and Java's maps.

Kafka never chose an order: it gave hash maps to Jackson. The order of each fixed object is given by its encoder; this
module computes the order of maps with open keys: `scala.collection.mutable.HashMap` (2.13) for partitions and
`java.util.Properties` for configs. Not implemented: the order inside one bucket of Properties, which depended on the
order of insertion; here the smaller key comes first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import BrokerId
from trimaran.wire.text.java_order import spread

# No znode of Kafka's is deeper or larger: jute refuses packets over 1 MiB, and the objects have three levels.
JSON_BYTES_MAX = 1 << 20

_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
# Created once, since `json.dumps` would create an encoder for each call.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode_json(value: dict[str, Any]) -> bytes:
    """Returns compact UTF-8 JSON; escapes have upper-case digits, as Jackson's."""
    text = _ENCODER.encode(value)
    if "\\" in text:
        text = _ESCAPE.sub(_upper_digits, text)
    return text.encode("utf-8", "surrogatepass")


def decode_json(data: bytes | None) -> dict[str, Any]:
    """Returns the object in `data`; RemoteProtocolError for anything else."""
    if data is None or len(data) > JSON_BYTES_MAX:
        raise RemoteProtocolError("a znode without data, or too large")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("a znode that is not JSON") from error
    if not isinstance(value, dict):
        raise RemoteProtocolError("a znode that is not a JSON object")
    return value


def scala_map_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order in which scala.collection.mutable.HashMap (2.13) iterates."""
    names = list(keys)
    buckets = 16
    while len(names) + 1 > int(buckets * 0.75):
        buckets *= 2

    def place(key: str) -> tuple[int, int, str]:
        mixed = spread(key)
        # Buckets are chains ordered by the (signed) hash.
        return mixed & (buckets - 1), _signed(mixed), key

    return sorted(names, key=place)


def properties_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order in which java.util.Properties (a ConcurrentHashMap inside) iterates."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets - (buckets >> 2):
        buckets *= 2

    def place(key: str) -> tuple[int, str]:
        return spread(key) & 0x7FFFFFFF & (buckets - 1), key

    return sorted(names, key=place)


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def _upper_digits(match: re.Match[str]) -> str:
    escape = match.group()
    return "\\u" + escape[2:].upper() if escape.startswith("\\u") else escape


T = TypeVar("T")


def decode_or_none(decode: Callable[[bytes | None], T], data: bytes | None) -> T | None:
    """Returns the decoded value, None if the bytes are malformed: a damaged znode counts as absent."""
    try:
        return decode(data)
    except RemoteProtocolError:
        return None


def ids(values: list[object]) -> tuple[BrokerId, ...]:
    """Returns the broker ids of a list."""
    found = tuple(BrokerId(value) for value in values if isinstance(value, int))
    if len(found) != len(values):
        raise RemoteProtocolError("a list of broker ids with something else in it")
    return found


def member(members: dict[str, Any], name: str, kind: type[T]) -> T:
    """Returns a member that must exist and have the type `kind`."""
    value = members.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RemoteProtocolError(f"a znode whose {name!r} is {value!r}")
    return value


def number(members: dict[str, Any], name: str) -> int:
    """Returns a number that Kafka wrote as text."""
    text = member(members, name, str)
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise RemoteProtocolError(f"a znode whose {name!r} is {text!r}")
    return int(text)
