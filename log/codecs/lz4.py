"""LZ4 frames with independent blocks of 64 KiB, as Kafka's Java client writes and reads them."""

from __future__ import annotations

from collections.abc import Iterator

from lz4 import frame

from trimaran.log.codecs.output import Bytes, BytesAfterEnd, Output, damaged, step_bytes

LEVEL_DEFAULT = 9  # lz4-java uses the fast compressor at this level, and the high one at all others
_FAST = 0
_NO_MEMORY = "ERROR_allocation_failed"  # in liblz4's LZ4F_errorCodes


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
    """Decompresses the data, with a single call if that returns all of it, as it does for most batches."""
    context = frame.create_decompression_context()
    step = step_bytes(data)
    piece, rest, ended = _next(context, memoryview(data), min(step, limit_bytes + 1))
    if ended and not rest and len(piece) <= limit_bytes:
        return piece
    out = Output(limit_bytes)
    out.add(piece)
    while not ended:
        if not rest:
            raise damaged("lz4", "cut short")
        piece, rest, ended = _next(context, rest, min(step, out.room))
        out.add(piece)
    if rest:
        raise BytesAfterEnd("lz4", out.joined)
    return out.joined


def _next(context: object, data: memoryview, bytes_max: int) -> tuple[bytes, memoryview, bool]:
    """Returns more decompressed bytes, the rest of `data`, and whether the frame has ended."""
    try:
        piece, taken, ended = frame.decompress_chunk(context, data, max_length=bytes_max)
    except (RuntimeError, ValueError, EOFError) as error:
        if _NO_MEMORY in str(error):  # the data may be valid
            raise MemoryError(str(error)) from None
        raise damaged("lz4", error) from None
    return piece, data[taken:], ended


def pieces(data: Bytes, piece_bytes: int) -> Iterator[bytes]:
    context = frame.create_decompression_context()
    rest, ended = memoryview(data), False
    while not ended:
        if not rest:
            raise damaged("lz4", "cut short")
        piece, rest, ended = _next(context, rest, piece_bytes)
        yield piece
