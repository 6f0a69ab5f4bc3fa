"""The header checksum of LZ4 frames: all clients of record format v0 computed it incorrectly (KAFKA-3160), so for v0
the incorrect value is written, and the value is not checked.
"""

from __future__ import annotations

from trimaran.log.codecs.lz4_java import CONTENT_SIZE, DICTIONARY_ID
from trimaran.log.codecs.output import Bytes, damaged


def with_checksum(frame: Bytes, *, broken: bool) -> bytes:
    """Returns the frame with the header checksum that its format requires; `broken` includes the frame's magic, as in
    KAFKA-3160.

    ```
    frame := magic 4 bytes, descriptor 2 to 14 bytes, checksum 1 byte: bits 8-15 of xxh32 of the descriptor, …
    ```
    """
    fixed = bytearray(frame)
    if len(fixed) < 7:
        raise damaged("lz4", "cut short")
    flags = fixed[4]
    end = 6 + 8 * bool(flags & CONTENT_SIZE) + 4 * bool(flags & DICTIONARY_ID)
    if end >= len(fixed):
        raise damaged("lz4", "cut short")
    fixed[end] = _xxh32_of_few(bytes(fixed[0 if broken else 4 : end])) >> 8 & 0xFF
    return bytes(fixed)


def _xxh32_of_few(data: bytes) -> int:
    """Returns xxHash32 with seed 0 of at most 15 bytes (longer inputs have another first step); xxHash specification,
    0.1.1.
    """
    assert len(data) < 16
    prime2, prime3, prime4, prime5 = 2246822519, 3266489917, 668265263, 374761393
    prime1, mask = 2654435761, 0xFFFFFFFF
    value = prime5 + len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value = value + int.from_bytes(data[start : start + 4], "little") * prime3 & mask
        value = (value << 17 | value >> 15) * prime4 & mask
    for byte in data[whole:]:
        value = value + byte * prime5 & mask
        value = (value << 11 | value >> 21) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16
