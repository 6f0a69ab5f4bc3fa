"""Compression: inverse functions with an output limit; damage raises our error, never an exception of the library."""

import gzip
import struct
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.codecs import gzip as gzip_codec
from trimaran.log.codecs import zstd as zstd_codec
from trimaran.log.codecs.compression import Compression, OutputTooLarge, compress, decompress
from trimaran.log.codecs.snappy import XERIAL_HEADER, XERIAL_MAGIC
from trimaran.wire.errors import RemoteProtocolError

KINDS = [kind for kind in Compression if kind is not Compression.NONE]
TEXT = b"".join(b"line %d of some text that repeats itself\n" % i for i in range(4000))


@given(st.sampled_from(Compression), st.binary(max_size=500))
def test_decompression_inverts_compression(kind, data):
    assert decompress(kind, compress(kind, data), len(data)) == data


@pytest.mark.parametrize("kind", KINDS)
def test_large_data_is_compressed_to_half(kind):
    packed = compress(kind, memoryview(TEXT))
    assert len(packed) < len(TEXT) / 2
    assert decompress(kind, memoryview(packed), len(TEXT)) == TEXT


@pytest.mark.parametrize("kind", Compression)
def test_output_limit_is_exact(kind):
    packed = compress(kind, TEXT)
    assert decompress(kind, packed, len(TEXT)) == TEXT
    with pytest.raises(OutputTooLarge):
        decompress(kind, packed, len(TEXT) - 1)


BOMB_BYTES = 64 << 20


@pytest.mark.parametrize(
    "bomb",
    [
        (Compression.GZIP, gzip.compress(bytes(BOMB_BYTES), 1)),
        (Compression.LZ4, lz4.frame.compress(bytes(BOMB_BYTES))),
        (Compression.ZSTD, zstandard.compress(bytes(BOMB_BYTES))),
        (Compression.SNAPPY, snappy.compress(bytes(BOMB_BYTES))),
    ],
    ids=lambda bomb: bomb[0].name,
)
def test_bombs_stop_at_the_limit(bomb):
    kind, packed = bomb
    with pytest.raises(OutputTooLarge):
        decompress(kind, packed, 1 << 20)


@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_is_noticed(kind):
    packed = compress(kind, TEXT[:3000])
    for size in range(len(packed)):
        try:
            assert decompress(kind, packed[:size], 1 << 20) != TEXT[:3000]
        except RemoteProtocolError:
            continue
        assert kind is Compression.SNAPPY, (
            f"{size} of {len(packed)} bytes"
        )  # frames have no end mark: the records are incomplete


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_after_the_end_are_noticed(kind):
    with pytest.raises(RemoteProtocolError):
        decompress(kind, compress(kind, TEXT[:3000]) + b"garbage", 1 << 20)


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4])
@pytest.mark.parametrize("garbage", [b"\0", b"garbage", b"\x1f\x8b" * 40])
def test_data_skipped_by_java_is_skipped(kind, garbage):
    packed = compress(kind, TEXT[:3000]) + garbage
    assert decompress(kind, packed, 3000, may_be_followed=True) == TEXT[:3000]
    with pytest.raises(OutputTooLarge):
        decompress(kind, packed, 2999, may_be_followed=True)


# Decompresses a frame with a window of 128 MiB in a process that may allocate `room` more bytes.
WITHOUT_MEMORY = """
import re, resource, zstandard
from trimaran.log.codecs.zstd import decompress
window = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
decompress(zstandard.compress(b"x"), 1)
frame = zstandard.ZstdCompressor(compression_params=window).compressobj()
packed = frame.compress(bytes(4 << 20)) + frame.flush()
size = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
resource.setrlimit(resource.RLIMIT_AS, (size + (16 << 20), resource.RLIM_INFINITY))
try:
    decompress(packed, 8 << 20)
except MemoryError:
    print("no memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are kept on Linux")
def test_lack_of_memory_is_not_reported_as_damage():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("no memory\n", "")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=100))
def test_any_bytes_give_bytes_or_a_protocol_error(kind, data):
    try:
        assert len(decompress(kind, data, 1000)) <= 1000
    except RemoteProtocolError:
        return


@pytest.mark.parametrize("kind", KINDS)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3)
)
def test_mutations_give_bytes_or_a_protocol_error(kind, changes):
    packed = bytearray(compress(kind, TEXT[:2000]))
    for position, value in changes:
        packed[position % len(packed)] = value
    try:
        assert len(decompress(kind, packed, 1 << 16)) <= 1 << 16
    except RemoteProtocolError:
        return


def test_both_framings_of_snappy_are_read():
    raw = snappy.compress(TEXT[:100])
    xerial = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(raw)) + raw
    assert decompress(Compression.SNAPPY, raw, 100) == TEXT[:100]
    assert decompress(Compression.SNAPPY, xerial, 100) == TEXT[:100]
    assert compress(Compression.SNAPPY, TEXT).startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")


def test_impossible_snappy_length_is_refused():
    with pytest.raises(RemoteProtocolError):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\x7f\0\0", 1 << 30)


def test_consecutive_gzip_members_are_read():
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, packed, 7) == b"one two"
    with pytest.raises(OutputTooLarge):
        decompress(Compression.GZIP, packed, 6)


@pytest.mark.parametrize("size", [0, 100, len(TEXT)])
@pytest.mark.parametrize(
    "library", [zlib, gzip_codec.inflating], ids=lambda module: module.__name__
)
def test_gzip_reads_alike_with_zlib_and_its_replacement(monkeypatch, library, size):
    monkeypatch.setattr(gzip_codec, "inflating", library)
    packed = compress(Compression.GZIP, TEXT[:size])
    assert decompress(Compression.GZIP, packed, size) == TEXT[:size]
    for damaged in (packed[:-1], packed + b"more", packed[:-8] + bytes(8) + b"\1", b"", b"\x1f"):
        with pytest.raises(RemoteProtocolError, match="damaged gzip"):
            decompress(Compression.GZIP, damaged, 1 << 20)
    if size:
        with pytest.raises(OutputTooLarge):
            decompress(Compression.GZIP, packed, size - 1)


def test_gzip_is_read_with_zlib_ng():
    assert gzip_codec.inflating is not zlib


def test_zlib_stream_is_not_gzip():
    with pytest.raises(RemoteProtocolError):
        decompress(Compression.GZIP, zlib.compress(TEXT), 1 << 20)


def with_window(window_log, data):
    """Returns a frame without its content size, like frames that Java writes."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(data) + compressor.flush()


def test_consecutive_zstd_frames_are_read():
    packed = zstandard.compress(b"one ") + zstandard.ZstdCompressor(write_checksum=True).compress(
        b"two"
    )
    assert decompress(Compression.ZSTD, packed, 7) == b"one two"
    with pytest.raises(RemoteProtocolError):
        decompress(Compression.ZSTD, packed[:-1], 7)


def outcome(action, *asked):
    try:
        return bytes(action(*asked))
    except RemoteProtocolError as error:
        return type(error)


@given(
    size=st.integers(0, 3000),
    tells_size=st.booleans(),
    tail=st.sampled_from([b"", b"", zstandard.compress(b"two"), b"more", b"\0"]),
    cut=st.sampled_from([0, 0, 0, 1, 5]),
    changes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 255)), max_size=2),
    limit_bytes=st.sampled_from([1 << 20, 3000, 100]),
)
def test_single_step_of_zstd_equals_many(size, tells_size, tail, cut, changes, limit_bytes):
    compressor = zstandard.ZstdCompressor(write_content_size=tells_size)
    packed = bytearray(compressor.compress(TEXT[:size]) + tail)
    for position, value in changes:
        packed[position % len(packed)] = value
    asked = (packed[: len(packed) - cut], limit_bytes)
    assert outcome(zstd_codec.decompress, *asked) == outcome(
        zstd_codec._decompress_by_steps, *asked
    )


@pytest.mark.parametrize("size", [1000, len(TEXT)], ids=["one block", "several"])
def test_zstd_window_is_limited_as_in_java(size):
    assert decompress(Compression.ZSTD, with_window(27, TEXT[:size]), size) == TEXT[:size]
    with pytest.raises(RemoteProtocolError, match="damaged zstd"):
        decompress(Compression.ZSTD, with_window(28, TEXT[:size]), size)


def test_large_zstd_window_allocates_only_for_content():
    """A small batch may declare 128 MiB, and every thread may be decompressing one."""
    packed = with_window(27, TEXT)
    code = """if True:
        import resource, sys
        from trimaran.log.codecs.zstd import decompress
        packed = sys.stdin.buffer.read()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(5):
            decompress(packed, 1 << 20)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
    asked = [sys.executable, "-c", code]
    grown_kib = int(subprocess.run(asked, input=packed, stdout=subprocess.PIPE, check=True).stdout)
    assert grown_kib < 8 << 10


def test_zstd_frames_of_any_blocks_are_read():
    for size in (1, 128 * 1024, 128 * 1024 + 1, len(TEXT)):
        packed = compress(Compression.ZSTD, TEXT[:size])
        is_of_one_block = zstd_codec._window_of_one_block(packed) is not None
        assert is_of_one_block == (size <= 128 * 1024)
        assert decompress(Compression.ZSTD, packed, size) == TEXT[:size]


def test_zstd_frame_with_false_size_is_refused():
    packed = zstandard.compress(TEXT[:200])
    assert packed[4] == 0x20, "one segment, its size in one byte"
    for size in (199, 201, 0):
        with pytest.raises(RemoteProtocolError):
            decompress(Compression.ZSTD, packed[:5] + bytes([size]) + packed[6:], 1 << 20)


def test_lz4_frame_is_readable_by_kafka():
    packed = compress(Compression.LZ4, TEXT)
    descriptor = packed[4]
    assert descriptor >> 6 == 1
    assert descriptor & 0x20, "Kafka's reader refuses dependent blocks"
    assert packed[5] >> 4 == 4, "64 KiB blocks"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Compression.GZIP, gzip.compress(b"") * 50_000),
        (Compression.SNAPPY, XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1) + b"\0\0\0\1\0" * 200_000),
        (Compression.ZSTD, bytes.fromhex("28b52ffd0058") + b"\0\0\0" * 300_000 + b"\1\0\0"),
        (Compression.ZSTD, bytes.fromhex("28b52ffd0058010000") * 100_000),
        (Compression.ZSTD, bytes.fromhex("502a4d1800000000") * 100_000),
    ],
    ids=["gzip members", "snappy blocks", "zstd blocks", "zstd frames", "skippable zstd frames"],
)
def test_number_of_empty_parts_is_bounded(kind, data):
    with pytest.raises(RemoteProtocolError, match="more than"):
        decompress(kind, data, 1 << 20)


def test_damaged_zstd_frame_does_not_spoil_next():
    packed = compress(Compression.ZSTD, TEXT)
    for place in (8, len(packed) // 2, len(packed) - 3):
        damaged = bytearray(packed)
        damaged[place] ^= 0xFF
        with suppress(RemoteProtocolError):
            assert decompress(Compression.ZSTD, damaged, len(TEXT)) != TEXT
        with pytest.raises(OutputTooLarge):
            decompress(Compression.ZSTD, packed, 100)
        assert decompress(Compression.ZSTD, packed, len(TEXT)) == TEXT


@pytest.mark.parametrize(("window_log", "kept"), [(20, True), (23, False), (27, False)])
def test_large_zstd_window_is_not_kept(window_log, kept):
    packed = with_window(window_log, TEXT)

    def in_a_new_thread():
        assert decompress(Compression.ZSTD, packed, len(TEXT)) == TEXT
        return hasattr(zstd_codec._of_thread, "decompressor")

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(in_a_new_thread).result() == kept


def test_snappy_blocks_with_wrong_expanded_size_are_refused():
    block = snappy.compress(TEXT[:100])
    for length in (99, 101):
        with pytest.raises(RemoteProtocolError):
            decompress(Compression.SNAPPY, bytes([length]) + block[1:], 1 << 20)
