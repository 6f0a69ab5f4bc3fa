"""Snappy, in the framing of snappy-java (xerial) or as one raw block.

```
stream := header, { size int32, block | header }*
header := magic 8 bytes, version int32, lowest compatible version int32
block := decompressed length (varint), elements
```

Streams may follow one another, as in snappy-java: a header between them is skipped.

Blocks are read by cramjam, which python-snappy wraps: it decompresses each block directly into its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam
import snappy

from trimaran.log.codecs.output import Bytes, TooManyParts, damaged, too_large

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = struct.Struct(">8sii")
_SIZE = struct.Struct(">i")
(_SIZE_OF_HEADER,) = _SIZE.unpack_from(XERIAL_MAGIC)  # a header in place of a size
BLOCK_BYTES = 32 * 1024  # snappy-java's default
# The maximum number of blocks: each costs a step of Python and may be empty, so a megabyte of them could block the
# loop. Old versions of snappy-java wrote blocks of at least 1 KiB, so this suffices for at least 8 MiB.
BLOCKS_MAX = 1 << 13
EXPANSION_MAX = 64  # the bound of a block, by its format


def compress(data: Bytes, _level: int | None) -> bytes:
    out = bytearray(XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1))
    with memoryview(data) as view:
        for start in range(0, len(view), BLOCK_BYTES):
            block = snappy.compress(view[start : start + BLOCK_BYTES])
            out += _SIZE.pack(len(block))
            out += block
    return bytes(out)


def decompress(data: Bytes, limit_bytes: int) -> bytearray:
    """Decompresses the data; the declared sizes of the blocks are added first, so that each block is written directly
    into its place.
    """
    blocks = _blocks(memoryview(data))
    total = sum(map(_length, blocks))
    if total > limit_bytes:
        raise too_large(limit_bytes)
    out = bytearray(total)
    room = memoryview(out)
    start = 0
    try:
        for block in blocks:
            start += cramjam.snappy.decompress_raw_into(block, room[start:])
    except cramjam.DecompressionError as error:
        raise damaged("snappy", error) from None
    if start != total:
        raise damaged("snappy", f"{start} bytes instead of {total}")
    return out


def _blocks(data: memoryview, blocks_max: int = BLOCKS_MAX) -> list[memoryview]:
    """Yields the blocks in xerial framing; without framing, all of the data is one block."""
    if data[:8] != XERIAL_MAGIC:
        return [data]
    position, end = XERIAL_HEADER.size, len(data)
    if end < position:
        raise damaged("snappy", "short header")
    blocks: list[memoryview] = []
    parts = 0
    while position < end:
        parts += 1
        if parts > blocks_max:
            raise TooManyParts("snappy", blocks_max, "blocks")
        if end - position < _SIZE.size:
            raise damaged("snappy", "cut short")
        (size,) = _SIZE.unpack_from(data, position)
        if size == _SIZE_OF_HEADER and data[position : position + 8] == XERIAL_MAGIC:
            position += XERIAL_HEADER.size
            continue
        position += _SIZE.size
        if not 0 < size <= end - position:
            raise damaged("snappy", f"block of {size} bytes")
        blocks.append(data[position : position + size])
        position += size
    if position > end:
        raise damaged("snappy", "short header")
    return blocks


def _length(block: memoryview) -> int:
    """Returns the declared decompressed size of a raw block, limited to the maximum of its format."""
    try:
        length = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise damaged("snappy", error) from None
    if length > EXPANSION_MAX * (len(block) + 1):
        raise damaged("snappy", f"claims {length} bytes from {len(block)}")
    return length


def pieces(data: Bytes, piece_bytes: int) -> Iterator[bytearray]:
    for block in _blocks(memoryview(data), len(data)):
        size = _length(block)
        if size > piece_bytes:
            raise too_large(piece_bytes)
        piece = bytearray(size)
        try:
            done = cramjam.snappy.decompress_raw_into(block, piece)
        except cramjam.DecompressionError as error:
            raise damaged("snappy", error) from None
        if done != size:
            raise damaged("snappy", f"{done} bytes instead of {size}")
        yield piece
