"""What generated encoders call: errors, and the uncommon ways."""

import struct
from collections.abc import Callable

from wire.codec.reading import SHORT_ARRAY_MAX, array_format
from wire.errors import LocalProtocolError
from wire.primitives import write_uvarint

# Kafka's limit on strings (their first form had an int16 size), kept in compact strings too.
STRING_BYTES_MAX = 0x7FFF


def raise_absent(name: str, version: int) -> None:
    raise LocalProtocolError(f"{name} is set but does not exist in version {version}")


def raise_uuid(value: bytes) -> None:
    raise LocalProtocolError(f"a UUID has {len(value)} bytes instead of 16")


def write_string_size(out: bytearray, size_plus_1: int) -> None:
    """The size of a compact string, when one byte may not do."""
    if size_plus_1 > STRING_BYTES_MAX + 1:
        raise LocalProtocolError(
            f"a string of {size_plus_1 - 1} bytes is longer than {STRING_BYTES_MAX}"
        )
    write_uvarint(out, size_plus_1)


class ArrayPackers(dict[int, Callable[..., bytes]]):
    """By count: what packs so many numbers and the fixed-size fields behind them. Filled on demand up to `SHORT_ARRAY_MAX`."""

    def __init__(self, item: str, tail: str) -> None:
        super().__init__()
        self.item = item
        self.tail = tail

    def __missing__(self, count: int) -> Callable[..., bytes]:
        pack = struct.Struct(f">{array_format(self.item, count)}{self.tail}").pack
        if count <= SHORT_ARRAY_MAX:
            self[count] = pack
        return pack


def write_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    write_uvarint(out, len(tags))
    for tag, body in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(body))
        out += body
