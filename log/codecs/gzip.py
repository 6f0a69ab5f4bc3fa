"""gzip (RFC 1952). Data is decompressed with zlib-ng, which takes two thirds of the time of zlib, and compressed with
zlib, as in Kafka, so that sizes are the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from trimaran.log.codecs.output import Bytes, BytesAfterEnd, Output, damaged

try:
    from zlib_ng import zlib_ng as inflating
except ImportError:  # there is no wheel for this Python; both modules have the same interface
    import zlib as inflating  # type: ignore[no-redef]

# The maximum number of members of a stream: each costs a step of Python and a copy of the remaining data, and may be
# empty, so a megabyte of them could block the loop. Producers write one.
MEMBERS_MAX = 16
_GZIP_WRAPPER = 31  # `wbits`: a window of 32 KiB, gzip's header and trailer
_MAGIC = b"\x1f\x8b\x08"
_LEVEL_DEFAULT = -1


def compress(data: Bytes, level: int | None) -> bytes:
    compressor = zlib.compressobj(_LEVEL_DEFAULT if level is None else level, wbits=_GZIP_WRAPPER)
    return compressor.compress(data) + compressor.flush()


def decompress(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    out = Output(limit_bytes)
    rest: Bytes = data
    for _ in range(MEMBERS_MAX):  # Java's reader accepts several members
        member = inflating.decompressobj(wbits=_GZIP_WRAPPER)
        try:
            out.add(member.decompress(rest, out.room))
        except inflating.error as error:  # type: ignore[misc] # in its stub an instance, not a class
            raise damaged("gzip", error) from None
        if not member.eof:
            raise damaged("gzip", "cut short")
        rest = member.unused_data
        if not rest:
            return out.joined
        if rest[: len(_MAGIC)] != _MAGIC:
            raise BytesAfterEnd("gzip", out.joined)
    raise damaged("gzip", f"more than {MEMBERS_MAX} members")


def pieces(data: Bytes, piece_bytes: int) -> Iterator[bytes]:
    rest: Bytes = data
    for _ in range(MEMBERS_MAX):
        member = inflating.decompressobj(wbits=_GZIP_WRAPPER)
        while not member.eof:
            try:
                piece = member.decompress(rest, piece_bytes)
            except inflating.error as error:  # type: ignore[misc] # in its stub an instance, not a class
                raise damaged("gzip", error) from None
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise damaged("gzip", "cut short")
            yield piece
        rest = member.unused_data
        if rest[: len(_MAGIC)] != _MAGIC:
            return
    raise damaged("gzip", f"more than {MEMBERS_MAX} members")
