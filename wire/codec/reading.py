"""Functions called by generated decoders: errors and uncommon cases."""

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from trimaran.wire.buffers.primitives import read_uvarint
from trimaran.wire.errors import RemoteProtocolError

Bytes = bytes | memoryview

# Arrays of numbers up to this count are read by a `struct` call with the count in its format.
SHORT_ARRAY_MAX = 32


def bad_size(name: str, size: int) -> NoReturn:
    if size == -1:
        raise RemoteProtocolError(f"{name} is null")
    raise RemoteProtocolError(f"{name} has size {size}, which is more than there is or allowed")


def bad_tag(name: str, tag: int) -> NoReturn:
    raise RemoteProtocolError(f"{name} has tag {tag} out of place, or with a wrong size")


def array_format(item: str, count: int) -> str:
    """Returns the `struct` format codes of `count` numbers or UUIDs."""
    return f"{count}{item}" if len(item) == 1 else item * count


class ArrayUnpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """Readers by count; each reads this number of numbers and the fixed-size fields after them. Filled on demand up to
    `SHORT_ARRAY_MAX`.
    """

    def __init__(self, item: str, tail: str) -> None:
        self.item = item
        self.tail = tail

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        packed = struct.Struct(f">{array_format(self.item, count)}{self.tail}")
        unpack = self[count] = packed.unpack_from
        return unpack


def read_long_array(name: str, item: str, count: int, buf: Bytes, pos: int, end: int) -> list[Any]:
    """Reads an array of numbers or UUIDs of any size; the caller has checked the budget of elements."""
    size = struct.calcsize(">" + item)
    if count < 0 or count * size > end - pos:
        bad_size(name, count)
    if len(item) == 1:
        return list(struct.unpack_from(f">{count}{item}", buf, pos))
    return [bytes(buf[at : at + size]) for at in range(pos, pos + count * size, size)]


def read_tag(
    name: str, refused: tuple[int, ...], buf: Bytes, pos: int, last: int, end: int
) -> tuple[int, int, int]:
    """Reads the head of a tagged field: its tag, and the start and end of its value.

    Tags ascend; `refused` has the tags of other versions, which Kafka also refuses.
    """
    tag, pos = read_uvarint(buf, pos)
    size, pos = read_uvarint(buf, pos)
    if tag <= last or pos + size > end or tag in refused:
        bad_tag(name, tag)
    return tag, pos, pos + size


def skip_tags(
    name: str, refused: tuple[int, ...], buf: Bytes, pos: int, end: int, count_max: int
) -> tuple[int, int]:
    """Skips a section of unknown tagged fields; returns its end, and their number."""
    count, pos = read_uvarint(buf, pos)
    if count > count_max:
        bad_size(f"{name} tags", count)
    tag = -1
    for _ in range(count):
        tag, _, pos = read_tag(name, refused, buf, pos, tag, end)
    return pos, count
