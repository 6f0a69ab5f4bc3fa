"""Compression of record batches: gzip, snappy, lz4 and zstd as Kafka's producers write them.

Source: Kafka's `compress` package, the xerial framing of snappy-java, the LZ4 frame format, RFC 8878 (zstd).
Every decompressor stops at an output limit of ours, so a small batch cannot grow without bound in memory
(CVE-2023-34455). In format v0 an LZ4 frame's header checksum is computed wrongly by all clients of that time (KAFKA-3160):
it is written so and not checked there.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from threading import local
from typing import TYPE_CHECKING

from wire.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zstandard import ZstdDecompressor

Bytes = bytes | bytearray | memoryview

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = struct.Struct(">8sii")  # magic, version, lowest compatible version
_INT32 = struct.Struct(">i")

SNAPPY_BLOCK_BYTES = 32 * 1024  # snappy-java's default block
# Output grows by this, or by four times what was received: a declared size is never allocated before its bytes exist.
CHUNK_BYTES = 32 * 1024
ZSTD_WINDOW_BYTES_MAX = (
    8 << 20
)  # RFC 8878 asks decoders to take 8 MiB windows; more would be memory for strangers
ZSTD_WINDOW_BYTES_KEPT = 2 << 20  # of zstd's default level, for each thread that checks batches

# Parts cost a step of Python each, and may be empty: bounded, so that a megabyte of them cannot hold a loop. Producers write one
# member; blocks of at least 1 KiB (snappy-java of old) and one frame (zstd, of blocks of 128 KiB), so 8 MiB fit at the least.
GZIP_MEMBERS_MAX = 16  # each leaves a copy of what follows
BLOCKS_MAX = 1 << 13


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class OutputTooLarge(RemoteProtocolError):
    """The decompressed bytes would exceed the caller's limit."""


LZ4_LEVEL_DEFAULT = (
    9  # lz4-java takes the fast compressor at this one, and the high one at all others
)


def compress(kind: Compression, data: Bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """The compressed form of `data`, framed as Kafka's Java producer frames it in the record format `magic`.

    `level` is as in Kafka's `compression.gzip.level` and its like; None is the codec's default, snappy has none.
    """
    packed = _COMPRESSORS[kind](data, level)
    if magic == 0 and kind is Compression.LZ4:
        return _with_lz4_checksum(packed, broken=True)
    return packed


def decompress(
    kind: Compression, data: Bytes, limit_bytes: int, *, magic: int = 2
) -> bytes | bytearray:
    """The original bytes of a batch of the record format `magic`.

    Raises:
        OutputTooLarge: there would be more than `limit_bytes` of them.
        RemoteProtocolError: the stream is damaged, cut short, or followed by something else.
    """
    if magic == 0 and kind is Compression.LZ4:
        data = _with_lz4_checksum(data, broken=False)
    return _DECOMPRESSORS[kind](data, limit_bytes)


def _too_large(limit_bytes: int) -> OutputTooLarge:
    return OutputTooLarge(f"compressed records expand to more than {limit_bytes} bytes")


def _damaged(codec: str, why: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"damaged {codec} data: {why}")


class _Output:
    """What comes out of a decompressor: of one piece, as most is, nothing is copied."""

    def __init__(self, data: Bytes, limit_bytes: int) -> None:
        # Each call of a library has its price, so pieces may be as large as what most data expands to.
        self.step = max(CHUNK_BYTES, 4 * len(data))
        self.limit_bytes = limit_bytes
        self.size = 0
        self._out: bytes | bytearray = b""

    @property
    def room(self) -> int:
        """One byte more than may come, so that too much is noticed."""
        return self.limit_bytes - self.size + 1

    def add(self, piece: bytes) -> None:
        if not self.size:
            self._out = piece
        elif isinstance(self._out, bytes):
            self._out = bytearray().join((self._out, piece))
        else:
            self._out += (
                piece  # grows in place: a thousand pieces kept apart would leave holes in the heap
            )
        self.size += len(piece)
        if self.size > self.limit_bytes:
            raise _too_large(self.limit_bytes)

    def joined(self) -> bytes | bytearray:
        return self._out


def _plain(data: Bytes, _level: int | None) -> bytes:
    return bytes(data)


def _plain_limited(data: Bytes, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _too_large(limit_bytes)
    return bytes(data)


def _compress_gzip(data: Bytes, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, wbits=31)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    out = _Output(data, limit_bytes)
    rest: Bytes = data
    for _ in range(GZIP_MEMBERS_MAX):  # Java's reader takes several in a row
        member = zlib.decompressobj(wbits=31)
        try:
            out.add(member.decompress(rest, out.room))
        except zlib.error as error:
            raise _damaged("gzip", error) from None
        if not member.eof:
            raise _damaged("gzip", "cut short")
        rest = member.unused_data
        if not rest:
            return out.joined()
    raise _damaged("gzip", f"more than {GZIP_MEMBERS_MAX} members")


def _compress_snappy(data: Bytes, _level: int | None) -> bytes:
    import snappy

    out = bytearray(XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1))
    with memoryview(data) as view:
        for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
            block = snappy.compress(view[start : start + SNAPPY_BLOCK_BYTES])
            out += _INT32.pack(len(block))
            out += block
    return bytes(out)


def _decompress_snappy(data: Bytes, limit_bytes: int) -> bytearray:
    """A block says how much it expands to, at most 64 times its own size: they are added up, and each goes straight to its place,
    which python-snappy has no call for, and cramjam below it does.
    """
    from cramjam import snappy

    blocks = _snappy_blocks(bytes(data))
    lengths = [_snappy_length(block) for block in blocks]
    total = sum(lengths)
    if total > limit_bytes:
        raise _too_large(limit_bytes)
    out = bytearray(total)  # zeroed by the system page by page, as it is filled
    position = 0
    with memoryview(out) as room:
        for block, length in zip(blocks, lengths, strict=True):
            try:
                written = snappy.decompress_raw_into(block, room[position : position + length])
            except Exception as error:  # noqa: BLE001 - the binding's exception classes differ between its versions
                raise _damaged("snappy", error) from None
            if written != length:
                raise _damaged("snappy", f"{written} bytes instead of {length}")
            position += length
    return out


def _snappy_blocks(raw: bytes) -> list[bytes]:
    """The blocks of xerial framing; all of it is one without."""
    if not raw.startswith(XERIAL_MAGIC):
        return [raw]
    position = XERIAL_HEADER.size
    if len(raw) < position:
        raise _damaged("snappy", "short header")
    blocks: list[bytes] = []
    while position < len(raw):
        if len(blocks) == BLOCKS_MAX:
            raise _damaged("snappy", f"more than {BLOCKS_MAX} blocks")
        if len(raw) - position < 4:
            raise _damaged("snappy", "cut short")
        (size,) = _INT32.unpack_from(raw, position)
        position += 4
        if not 0 < size <= len(raw) - position:
            raise _damaged("snappy", f"block of {size} bytes")
        blocks.append(raw[position : position + size])
        position += size
    return blocks


def _snappy_length(block: bytes) -> int:
    """The size that a raw block says it expands to, and may not exceed by format (at most 64 times its own)."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if length > 64 * len(block) + 64:
                raise _damaged("snappy", f"claims {length} bytes from {len(block)}")
            return length
        shift += 7
    raise _damaged("snappy", "no length")


def _compress_lz4(data: Bytes, level: int | None) -> bytes:
    import lz4.frame as lz4

    packed: bytes = lz4.compress(
        data,
        compression_level=0
        if level in (None, LZ4_LEVEL_DEFAULT)
        else max(level, lz4.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _decompress_lz4(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    import lz4.frame as lz4

    out = _Output(data, limit_bytes)
    decompressor = lz4.LZ4FrameDecompressor()
    chunk: Bytes = data
    try:
        while not decompressor.eof:
            out.add(decompressor.decompress(chunk, max_length=min(out.step, out.room)))
            if decompressor.eof:
                break
            if decompressor.needs_input:
                raise _damaged("lz4", "cut short")
            chunk = b""
    except (RuntimeError, ValueError, EOFError) as error:
        raise _damaged("lz4", error) from None
    if decompressor.unused_data:
        raise _damaged("lz4", "bytes after the end")
    return out.joined()


_LZ4_CONTENT_SIZE = 0x08  # flags in the first byte of the descriptor: eight more bytes follow
_LZ4_DICTIONARY_ID = 0x01  # four more


def _with_lz4_checksum(frame: Bytes, *, broken: bool) -> bytes:
    """The frame with the header checksum that its format asks for; `broken` takes the frame's magic in, as KAFKA-3160 did.

    ```
    frame := magic 4 bytes, descriptor 2 to 14 bytes, checksum 1 byte: bits 8-15 of xxh32 of the descriptor, …
    ```
    """
    fixed = bytearray(frame)
    if len(fixed) < 7:
        raise _damaged("lz4", "cut short")
    flags = fixed[4]
    end = 6 + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY_ID)
    if end >= len(fixed):
        raise _damaged("lz4", "cut short")
    fixed[end] = _xxh32_of_few(bytes(fixed[0 if broken else 4 : end])) >> 8 & 0xFF
    return bytes(fixed)


def _xxh32_of_few(data: bytes) -> int:
    """xxHash32 with seed 0 of at most 15 bytes (longer ones have another first step); xxHash specification, 0.1.1."""
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


def _compress_zstd(data: Bytes, level: int | None) -> bytes:
    import zstandard

    packed: bytes = zstandard.ZstdCompressor(3 if level is None else level).compress(data)
    return packed


def _decompress_zstd(data: Bytes, limit_bytes: int) -> bytes | bytearray:
    import zstandard

    raw = bytes(data)
    out = _Output(raw, limit_bytes)
    try:
        decompressor = _zstd_decompressor(_check_zstd_frames(raw))
        with decompressor.stream_reader(raw, read_across_frames=True) as reader:
            while piece := reader.read(min(out.step, out.room)):
                out.add(piece)
    except (zstandard.ZstdError, struct.error, IndexError, MemoryError) as error:
        raise _damaged("zstd", error) from None
    return out.joined()


_of_thread = local()


def _zstd_decompressor(window_bytes: int) -> ZstdDecompressor:
    """This thread's: to make one takes longer than to decompress a batch of 16 KiB. It keeps its window, so not one for large ones."""
    import zstandard

    kept: ZstdDecompressor | None = getattr(_of_thread, "zstd", None)
    if kept is not None and window_bytes <= ZSTD_WINDOW_BYTES_KEPT:
        return kept
    made = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    if window_bytes <= ZSTD_WINDOW_BYTES_KEPT:
        _of_thread.zstd = made
    return made


def _check_zstd_frames(raw: bytes) -> int:
    """Walks frame and block headers to the end: the library gives short output for a frame that was cut. Gives the largest window."""
    import zstandard

    position = blocks = window_bytes = 0
    while True:
        rest = raw[position : position + 18]  # the longest frame header
        if rest[:4] != b"\x28\xb5\x2f\xfd":
            raise _damaged("zstd", "no frame")
        parameters = zstandard.get_frame_parameters(rest)
        window_bytes = max(window_bytes, parameters.window_size)
        position += zstandard.frame_header_size(rest)
        last = False
        while not last:
            header = int.from_bytes(raw[position : position + 3], "little")
            last = bool(header & 1)
            blocks += 1
            if blocks > BLOCKS_MAX:
                raise _damaged("zstd", f"more than {BLOCKS_MAX} blocks")
            is_rle = header >> 1 & 3 == 1
            position += 3 + (1 if is_rle else header >> 3)
            if position > len(raw):
                raise _damaged("zstd", "cut short")
        position += 4 if parameters.has_checksum else 0
        if position == len(raw):
            return window_bytes
        if position > len(raw):
            raise _damaged("zstd", "cut short")


_COMPRESSORS: dict[Compression, Callable[[Bytes, int | None], bytes]] = {
    Compression.NONE: _plain,
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[Compression, Callable[[Bytes, int], bytes | bytearray]] = {
    Compression.NONE: _plain_limited,
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
