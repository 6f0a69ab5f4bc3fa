"""LZ4 frames, of independent blocks of 64 KiB as Kafka's Java client writes and reads them."""

from __future__ import annotations

from lz4 import frame

from log.codecs.output import Bytes, Output, damaged, step_bytes

LEVEL_DEFAULT = 9  # lz4-java takes the fast compressor at this one, and the high one at all others
_FAST = 0


def compress(data: Bytes, level: int | None) -> bytes:
    packed: bytes = frame.compress(
        data,
        compression_level=_FAST
        if level in (None, LEVEL_DEFAULT)
        else max(level, frame.COMPRESSIONLEVEL_MINHC),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def decompress(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    out = Output(limit_bytes)
    step = step_bytes(data)
    context = frame.create_decompression_context()
    rest = memoryview(data)
    while True:
        try:
            piece, taken, ended = frame.decompress_chunk(
                context, rest, max_length=min(step, out.room)
            )
        except (RuntimeError, ValueError, EOFError) as error:
            raise damaged("lz4", error) from None
        out.add(piece)
        rest = rest[taken:]
        if ended:
            break
        if not rest:
            raise damaged("lz4", "cut short")
    if rest:
        raise damaged("lz4", "bytes after the end")
    return out.joined
