"""Compression of record batches: gzip, snappy, lz4 and zstd as Kafka's producers write them.

Source: Kafka's `compress` package. Each codec is a module of `trimaran.log.codecs`, imported together with its library
at the first use, with three functions:

```
compress(data, level)            with the framing of Kafka's Java producer
decompress(data, limit_bytes)    stops at an output limit of ours, so a small batch cannot grow without bound in memory
(CVE-2023-34455)
pieces(data, piece_bytes) yields the data in pieces, if it is too large to be held in memory
```
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from trimaran.log.codecs.output import Bytes, BytesAfterEnd, OutputTooLarge
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.log.codecs import lz4_checksum
else:
    lz4_checksum = imported_later("trimaran.log.codecs.lz4_checksum")

__all__ = ["Compression", "OutputTooLarge", "compress", "decompress"]


class Compression(IntEnum):
    """The compression type, bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _Codec(Protocol):
    def compress(self, data: Bytes, level: int | None) -> bytes: ...
    def decompress(self, data: Bytes, limit_bytes: int) -> bytes | bytearray: ...
    def pieces(self, data: Bytes, piece_bytes: int) -> Iterator[bytes | bytearray]: ...


@cache
def _codec(kind: Compression) -> _Codec:
    return cast("_Codec", import_module(f"trimaran.log.codecs.{kind.name.lower()}"))


def compress(kind: Compression, data: Bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Returns `data` compressed, with the framing of Kafka's Java producer in the record format `magic`.

    `level` is as in Kafka's `compression.gzip.level` and similar keys; None is the codec's default, and snappy has no
    level.
    """
    packed = _codec(kind).compress(data, level)
    if magic == 0 and kind is Compression.LZ4:
        return lz4_checksum.with_checksum(packed, broken=True)
    return packed


def decompress(
    kind: Compression,
    data: Bytes,
    limit_bytes: int,
    *,
    magic: int = 2,
    may_be_followed: bool = False,
) -> bytes | bytearray:
    """Returns the original bytes of a batch of the record format `magic`.

    `may_be_followed`: bytes after a whole stream of gzip or lz4 are ignored, as Kafka's readers do.

    Raises:
        OutputTooLarge: there would be more than `limit_bytes` bytes.
        RemoteProtocolError: the stream is damaged, cut short, or followed by other bytes.
        MemoryError: this process has no memory for it; the data may be valid.
    """
    if magic == 0 and kind is Compression.LZ4:
        data = lz4_checksum.with_checksum(data, broken=False)
    try:
        return _codec(kind).decompress(data, limit_bytes)
    except BytesAfterEnd as error:
        if may_be_followed:
            return error.output
        raise


def decompress_in_pieces(
    kind: Compression, data: Bytes, piece_bytes: int
) -> Iterator[bytes | bytearray]:
    """Decompresses as `decompress` does in format v2 with `may_be_followed`, in pieces of at most `piece_bytes`.

    Raises:
        OutputTooLarge: a block of snappy, which is decompressed in one step, is larger than a piece.
        RemoteProtocolError: the stream is damaged or cut short; earlier pieces were yielded.
        MemoryError: this process has no memory for it.
    """
    return _codec(kind).pieces(data, piece_bytes)
