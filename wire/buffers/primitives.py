"""Variable-length integers and UUID text: the primitives of the Kafka protocol.

Source: Kafka's `ByteUtils` (varints) and `Uuid`. Fixed-size integers are encoded by `struct`.
Readers accept any bytes-like object that indexes to ints and return `(value, next position)`.
"""

import base64
import binascii

from trimaran.wire.errors import RemoteProtocolError

NIL_UUID = bytes(16)

# A 32-bit number needs 5 groups of 7 bits, a 64-bit one 10; longer sequences are refused, and overlong forms within the
# bound are decoded as in Kafka.
_VARINT_SHIFT_END = 35
_VARLONG_SHIFT_END = 70


def _read_groups(buf: bytes | memoryview, pos: int, shift_end: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while shift < shift_end:
            byte = buf[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, pos
            shift += 7
    except IndexError:
        raise RemoteProtocolError("a varint is cut off") from None
    raise RemoteProtocolError(f"a varint is longer than {shift_end // 7} bytes")


def read_uvarint(buf: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits (higher bits of a fifth byte are dropped)."""
    try:
        if (first := buf[pos]) < 0x80:
            return first, pos + 1
        if (second := buf[pos + 1]) < 0x80:
            return first & 0x7F | second << 7, pos + 2
        if (third := buf[pos + 2]) < 0x80:
            return first & 0x7F | (second & 0x7F) << 7 | third << 14, pos + 3
    except IndexError:
        raise RemoteProtocolError("a varint is cut off") from None
    value, pos = _read_groups(buf, pos, _VARINT_SHIFT_END)
    return value & 0xFFFFFFFF, pos


def write_uvarint(out: bytearray, value: int) -> None:
    """Appends `value` (0 <= value < 2**64)."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(buf: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Reads a zigzag varint of 32 bits."""
    value, pos = read_uvarint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(buf: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Reads a zigzag varint of 64 bits."""
    value, pos = _read_groups(buf, pos, _VARLONG_SHIFT_END)
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), pos


class _Uvarints(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        out = bytearray()
        write_uvarint(out, value)
        return bytes(out)


class _Varints(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        return UVARINTS[((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF]


_KEPT_MAX = 1024
UVARINTS = _Uvarints()
"""The unsigned varints of numbers, 0 <= number < 2**64; small ones are looked up without a call."""
UVARINTS |= {value: UVARINTS[value] for value in range(_KEPT_MAX)}
VARINTS = _Varints()
"""The zigzag varints of numbers, -2**63 <= number < 2**63; also those of 32-bit numbers, which are the same."""
VARINTS |= {value: VARINTS[value] for value in range(-1, _KEPT_MAX)}


def uuid_to_text(uuid: bytes) -> str:
    """Returns Kafka's text of a UUID: url-safe base64 of its 16 bytes, without padding."""
    return base64.urlsafe_b64encode(uuid)[:22].decode()


def uuid_from_text(text: str) -> bytes:
    """Returns the 16 bytes of a UUID in Kafka's text form.

    Raises:
        ValueError: the text is not 22 characters of url-safe base64.
    """
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a UUID in base64") from error
    if len(text) != 22 or len(uuid) != 16:
        raise ValueError(f"{text!r} is not a UUID: 22 characters are expected")
    return uuid
