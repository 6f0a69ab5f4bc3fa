"""Compressed streams with unusual formats: accepted from producers or refused as by Apache Kafka 4.3, so that Java
consumers can decode them.
"""

import struct
from random import Random

import lz4.frame
import pytest
import snappy
import zstandard

from tests.log.validation.test_validate import NOW, altered, assert_refused, produce
from trimaran.log.batches.batch import HEADER_BYTES, BatchView
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.codecs.lz4_checksum import with_checksum
from trimaran.log.codecs.snappy import XERIAL_HEADER, XERIAL_MAGIC
from trimaran.log.config import LogConfig
from trimaran.log.validation.validate import ProduceRules
from trimaran.wire.errors import ErrorCode

RULES = ProduceRules.of(LogConfig(max_message_bytes=8 << 20))
RECORDS = [NewRecord(b"k", Random(n).randbytes(500) * 3, NOW) for n in range(100)]
BATCH = build_batch(RECORDS)
BODY = bytes(BATCH[HEADER_BYTES:])
LEGAL_LZ4 = lz4.frame.compress(BODY, block_linked=False)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"hello"


def as_batch(codec, payload):
    return altered(BATCH, payload=payload, attributes=codec)


def assert_taken(codec, payload):
    (batch,) = produce(as_batch(codec, payload), RULES)
    assert [record.value for record in decode_records(batch)] == [r.value for r in RECORDS]


def lz4_of(*blocks, flags=0x60, more=b""):
    """Returns a frame of these uncompressed blocks; `more` follows the two bytes of its descriptor."""
    descriptor = bytes([flags, 0x70]) + more
    frame = b"\x04\x22\x4d\x18" + descriptor + b"\0"
    frame += b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return with_checksum(frame + bytes(4), broken=False)


def zstd_of(data, window_log=None, level=3):
    """Returns a frame without its content size, like frames that Java writes: the header has the window of the
    level.
    """
    given = {} if window_log is None else {"window_log": window_log}
    parameters = zstandard.ZstdCompressionParameters.from_level(level, **given)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(data) + compressor.flush()


def xerial(*blocks):
    sized = [struct.pack(">i", len(block)) + block for block in map(snappy.compress, blocks)]
    return XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1) + b"".join(sized)


@pytest.mark.parametrize(
    "payload",
    {
        "linked blocks": lz4.frame.compress(BODY, block_linked=True),
        "one block, said to be linked": lz4_of(BODY, flags=0x40),
        "dictionary": lz4_of(BODY, flags=0x61, more=b"\1\0\0\0"),
        "empty block": lz4_of(BODY[:99], b"", BODY[99:]),
        "empty block behind checksums": lz4_of(flags=0x70)[:7]
        + lz4.frame.compress(BODY, block_linked=False, block_checksum=True, store_size=False)[7:-4]
        + struct.pack("<II", 1 << 31, 0x02CC5D05)
        + bytes(4),
    }.items(),
    ids=lambda case: case[0],
)
@pytest.mark.parametrize("rules", [RULES, ProduceRules.of(LogConfig(compression=Compression.ZSTD))])
def test_lz4_unreadable_for_java_is_refused_but_decodable(payload, rules):
    _, data = payload
    batch = as_batch(Compression.LZ4, data)
    assert_refused(batch, ErrorCode.INVALID_RECORD, rules)
    assert len(decode_records(BatchView(memoryview(batch)))) == len(RECORDS)


@pytest.mark.parametrize(
    "options",
    [
        {"store_size": True},
        {"block_checksum": True},
        {"content_checksum": True},
        *({"block_size": size} for size in (4, 5, 6, 7)),
    ],
    ids=str,
)
def test_lz4_that_java_reads_is_accepted(options):
    assert_taken(Compression.LZ4, lz4.frame.compress(BODY, block_linked=False, **options))


def test_uncompressed_lz4_blocks_pass_too_many_are_refused():
    assert_taken(Compression.LZ4, lz4_of(BODY[:99], BODY[99:]))
    blocks = [BODY[n : n + 10] for n in range(0, len(BODY), 10)]
    assert len(blocks) > 1 << 13
    assert_refused(as_batch(Compression.LZ4, lz4_of(*blocks)), ErrorCode.INVALID_RECORD, RULES)


@pytest.mark.parametrize("level", [20, 21, 22])
def test_zstd_of_highest_levels_is_accepted(level):
    assert_taken(Compression.ZSTD, zstd_of(BODY, level=level))


def test_zstd_windows_pass_up_to_java_limit():
    assert_taken(Compression.ZSTD, zstd_of(BODY, 27))
    assert_refused(as_batch(Compression.ZSTD, zstd_of(BODY, 28)), ErrorCode.INVALID_RECORD, RULES)


def test_skippable_zstd_frames_are_skipped():
    first, second = zstandard.compress(BODY[:999]), zstandard.compress(BODY[999:])
    assert_taken(Compression.ZSTD, SKIPPABLE + first + SKIPPABLE + second + SKIPPABLE)
    assert_refused(
        as_batch(Compression.ZSTD, first + second + SKIPPABLE[:-1]), ErrorCode.INVALID_RECORD, RULES
    )
    assert_refused(as_batch(Compression.ZSTD, SKIPPABLE), ErrorCode.INVALID_RECORD, RULES)


def test_consecutive_snappy_streams_are_accepted():
    assert_taken(Compression.SNAPPY, xerial(BODY[:999]) + xerial() + xerial(BODY[999:]))
    cut = xerial(BODY) + xerial()[:12]
    assert_refused(as_batch(Compression.SNAPPY, cut), ErrorCode.INVALID_RECORD, RULES)
