"""zstd (RFC 8878)."""

from __future__ import annotations

import struct
from threading import local

import zstandard

from log.codecs.output import CHUNK_BYTES, Bytes, Output, damaged, step_bytes

# RFC 8878 asks decoders to take windows of 8 MiB; more would be memory for strangers.
WINDOW_BYTES_MAX = 8 << 20
WINDOW_BYTES_KEPT = 2 << 20  # of zstd's default level, for each thread that reads batches
# A block costs a step of Python and may be empty: bounded, so that a megabyte of them cannot hold a loop. Blocks are of 128 KiB.
BLOCKS_MAX = 1 << 13
LEVEL_DEFAULT = 3

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_FRAME_HEADER_BYTES_MAX = 18
_BLOCK_HEADER_BYTES = 3
_LAST_BLOCK = 1  # bit of a block's header
_RLE = 1  # type of a block that is one byte, again and again
_CHECKSUM_BYTES = 4


def compress(data: Bytes, level: int | None) -> bytes:
    packed: bytes = zstandard.ZstdCompressor(LEVEL_DEFAULT if level is None else level).compress(
        data
    )
    return packed


def decompress(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    """In one step where it is a frame of one block, as small batches are; what is odd about one is found out by steps."""
    try:
        window_bytes = _window_of_one_block(data)
        if window_bytes is not None:
            frame = _decompressor(window_bytes).decompressobj(write_size=CHUNK_BYTES)
            whole: bytes = frame.decompress(data)  # without a limit, but a block is 128 KiB at most
            if frame.eof and not frame.unused_data and len(whole) <= limit_bytes:
                return whole
    except zstandard.ZstdError:
        pass
    return _decompress_by_steps(data, limit_bytes)


def _window_of_one_block(data: Bytes) -> int | None:
    """The window of the first frame, if that has one block. Raises ZstdError."""
    if data[:4] != _FRAME_MAGIC:
        return None
    position = zstandard.frame_header_size(data)
    if position >= len(data) or not data[position] & _LAST_BLOCK:
        return None
    window_bytes: int = zstandard.get_frame_parameters(data).window_size
    return window_bytes


def _decompress_by_steps(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    out = Output(limit_bytes)
    step = step_bytes(data)
    try:
        decompressor = _decompressor(_check_frames(data))
        reader = decompressor.stream_reader(data, read_across_frames=True)
        while True:
            wanted = min(step, out.room)
            piece = reader.read(wanted)
            out.add(piece)
            if len(piece) < wanted:
                return out.joined
    except (zstandard.ZstdError, struct.error, IndexError, MemoryError) as error:
        raise damaged("zstd", error) from None


_of_thread = local()


def _decompressor(window_bytes: int) -> zstandard.ZstdDecompressor:
    """This thread's: to make one takes longer than to decompress a batch of 16 KiB. It keeps its window, so not one for large ones."""
    kept: zstandard.ZstdDecompressor | None = getattr(_of_thread, "decompressor", None)
    if kept is not None and window_bytes <= WINDOW_BYTES_KEPT:
        return kept
    made = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    if window_bytes <= WINDOW_BYTES_KEPT:
        _of_thread.decompressor = made
    return made


def _check_frames(data: Bytes) -> int:
    """Walks frame and block headers to the end: the library gives short output for a frame that was cut. Gives the largest window."""
    position = blocks = window_bytes = 0
    while True:
        start = data[position : position + _FRAME_HEADER_BYTES_MAX]
        if start[:4] != _FRAME_MAGIC:
            raise damaged("zstd", "no frame")
        frame = zstandard.get_frame_parameters(start)
        window_bytes = max(window_bytes, frame.window_size)
        position += zstandard.frame_header_size(start)
        last = False
        while not last:
            header = int.from_bytes(data[position : position + _BLOCK_HEADER_BYTES], "little")
            last = bool(header & _LAST_BLOCK)
            blocks += 1
            if blocks > BLOCKS_MAX:
                raise damaged("zstd", f"more than {BLOCKS_MAX} blocks")
            size = 1 if header >> 1 & 3 == _RLE else header >> 3
            position += _BLOCK_HEADER_BYTES + size
            if position > len(data):
                raise damaged("zstd", "cut short")
        position += _CHECKSUM_BYTES if frame.has_checksum else 0
        if position == len(data):
            return window_bytes
        if position > len(data):
            raise damaged("zstd", "cut short")
