"""No compression, with the interface of a codec."""

from __future__ import annotations

from trimaran.log.codecs.output import Bytes, too_large


def compress(data: Bytes, _level: int | None) -> bytes:
    return bytes(data)


def decompress(data: Bytes, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise too_large(limit_bytes)
    return bytes(data)
