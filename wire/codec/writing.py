"""Functions called by generated encoders: errors and uncommon cases."""

import struct
from collections.abc import Callable

from trimaran.wire.buffers.primitives import UVARINTS, write_uvarint
from trimaran.wire.codec.reading import SHORT_ARRAY_MAX, array_format
from trimaran.wire.errors import LocalProtocolError

# Kafka's limit on strings (originally with an int16 size), which also applies to compact strings.
STRING_BYTES_MAX = 0x7FFF

# The maximum number of compiled formats of one run: the counts of replicas, in-sync replicas and offline replicas have
# few combinations.
FORMATS_MAX = 256


def raise_absent(name: str, version: int) -> None:
    raise LocalProtocolError(f"{name} is set but does not exist in version {version}")


def raise_uuid(value: bytes) -> None:
    raise LocalProtocolError(f"a UUID has {len(value)} bytes instead of 16")


def write_string_size(out: bytearray, size_plus_1: int) -> None:
    """Writes the size of a compact string that may need more than one byte."""
    if size_plus_1 > STRING_BYTES_MAX + 1:
        raise LocalProtocolError(
            f"a string of {size_plus_1 - 1} bytes is longer than {STRING_BYTES_MAX}"
        )
    write_uvarint(out, size_plus_1)


class RunPackers(dict[tuple[int, ...], Callable[..., bytes]]):
    """Packers of a whole run, by the counts of its arrays. Filled on demand with common ones.

    `template` is a `struct` format with `{}` in place of each array, `format_codes` has the format codes of their
    elements.
    """

    def __init__(self, template: str, format_codes: tuple[str, ...]) -> None:
        self.template = template
        self.format_codes = format_codes

    def __missing__(self, counts: tuple[int, ...]) -> Callable[..., bytes]:
        arrays = [array_format(*pair) for pair in zip(self.format_codes, counts, strict=True)]
        pack = struct.Struct(self.template.format(*arrays)).pack
        if max(counts) <= SHORT_ARRAY_MAX and len(self) < FORMATS_MAX:
            self[counts] = pack
        return pack


def write_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    out += UVARINTS[len(tags)]
    for tag, body in tags:
        out += UVARINTS[tag]
        out += UVARINTS[len(body)]
        out += body
