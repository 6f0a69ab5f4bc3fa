"""zstd (RFC 8878)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import zstandard

from trimaran.log.codecs.output import CHUNK_BYTES, Bytes, Output, TooManyParts, damaged, step_bytes

# The largest window of Java's library by default (ZSTD_WINDOWLOG_LIMIT_DEFAULT); its level 22 writes it. A claim in a
# few bytes only reserves address space: pages of a window are allocated as output fills them, up to the caller's limit.
WINDOW_BYTES_MAX = 1 << 27
WINDOW_BYTES_KEPT = 2 << 20  # the window of zstd's default level, for each reading thread
# The maximum number of blocks and skippable frames: each costs a step of Python and may be empty, so a megabyte of them
# could block the loop. Blocks have 128 KiB.
PARTS_MAX = 1 << 13
LEVEL_DEFAULT = 3

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # after a byte from 0x50 to 0x5f
_SKIPPABLE = struct.Struct("<II")  # magic, and the size of the data after it
_FRAME_HEADER_BYTES_MAX = 18
_BLOCK_HEADER_BYTES = 3
_LAST_BLOCK = 1  # bit of a block's header
_RLE = 1  # type of a block that repeats one byte
_CHECKSUM_BYTES = 4
_NO_MEMORY = "not enough memory"  # the code of libzstd's ZSTD_error_memory_allocation


def compress(data: Bytes, level: int | None) -> bytes:
    packed: bytes = zstandard.ZstdCompressor(LEVEL_DEFAULT if level is None else level).compress(
        data
    )
    return packed


def decompress(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    """Decompresses the data, in one step if it is a frame of one block, as in small batches; if that fails, in several
    steps, which detect the fault.
    """
    try:
        window_bytes = _window_of_one_block(data)
        if window_bytes is not None:
            frame = _decompressor(window_bytes).decompressobj(write_size=CHUNK_BYTES)
            whole: bytes = frame.decompress(data)  # unlimited, but a block has at most 128 KiB
            if frame.eof and not frame.unused_data and len(whole) <= limit_bytes:
                return whole
    except zstandard.ZstdError:
        pass
    return _decompress_by_steps(data, limit_bytes)


def _window_of_one_block(data: Bytes) -> int | None:
    """Returns the window of the first frame, if that has one block. Raises ZstdError."""
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
    with _errors_mapped():
        reader = _reader(data)
        while True:
            wanted = min(step, out.room)
            piece = reader.read(wanted)
            out.add(piece)
            if len(piece) < wanted:
                return out.joined


def pieces(data: Bytes, piece_bytes: int) -> Iterator[bytes]:
    with _errors_mapped():
        reader = _reader(data, len(data))
        while piece := reader.read(piece_bytes):
            yield piece


def _reader(data: Bytes, parts_max: int = PARTS_MAX) -> zstandard.ZstdDecompressionReader:
    """Returns a reader of all frames, after their headers were checked."""
    return _decompressor(_check_frames(data, parts_max)).stream_reader(
        data, read_across_frames=True
    )


@contextmanager
def _errors_mapped() -> Iterator[None]:
    """Converts the errors of the library to those of `decompress`."""
    try:
        yield
    except zstandard.ZstdError as error:
        if _NO_MEMORY in str(error):  # the data may be valid
            raise MemoryError(str(error)) from None
        raise damaged("zstd", error) from None
    except (struct.error, IndexError) as error:
        raise damaged("zstd", error) from None


_of_thread = local()


def _decompressor(window_bytes: int) -> zstandard.ZstdDecompressor:
    """Returns this thread's decompressor: creating one takes longer than decompressing a batch of 16 KiB. It keeps its
    window, so it is not used for large windows.
    """
    kept: zstandard.ZstdDecompressor | None = getattr(_of_thread, "decompressor", None)
    if kept is not None and window_bytes <= WINDOW_BYTES_KEPT:
        return kept
    made = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    if window_bytes <= WINDOW_BYTES_KEPT:
        _of_thread.decompressor = made
    return made


def _check_frames(data: Bytes, parts_max: int) -> int:
    """Walks frame and block headers to the end: the library returns short output for a truncated frame. Returns the
    largest window.
    """
    position = parts = window_bytes = 0
    while position < len(data) or not parts:
        start = bytes(data[position : position + _FRAME_HEADER_BYTES_MAX])
        if start[1:4] == _SKIPPABLE_MAGIC and start[0] >> 4 == 5:
            position += _SKIPPABLE.size + _SKIPPABLE.unpack_from(start)[1]
            parts += 1
        elif start[:4] == _FRAME_MAGIC:
            frame = zstandard.get_frame_parameters(start)
            window_bytes = max(window_bytes, frame.window_size)
            position += zstandard.frame_header_size(start)
            position, parts = _end_of_blocks(data, position, parts, parts_max)
            position += _CHECKSUM_BYTES if frame.has_checksum else 0
        else:
            raise damaged("zstd", "no frame")
        if position > len(data):
            raise damaged("zstd", "cut short")
        if parts > parts_max:
            raise TooManyParts("zstd", parts_max, "blocks")
    return window_bytes


def _end_of_blocks(data: Bytes, position: int, parts: int, parts_max: int) -> tuple[int, int]:
    """Returns the end of the blocks of a frame, and the number of parts; it stops when a part lies outside of the data,
    or there are too many parts.
    """
    last = False
    while not last and position <= len(data) and parts <= parts_max:
        header = int.from_bytes(data[position : position + _BLOCK_HEADER_BYTES], "little")
        last = bool(header & _LAST_BLOCK)
        size = 1 if header >> 1 & 3 == _RLE else header >> 3
        position += _BLOCK_HEADER_BYTES + size
        parts += 1
    return position, parts
