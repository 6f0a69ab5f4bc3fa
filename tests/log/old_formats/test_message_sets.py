"""Formats v0 and v1: our reader and writer compared with the record modules of kafka-python and aiokafka, and with
bytes written by hand.
"""

import struct
import warnings
import zlib
from functools import partial

import pytest
from aiokafka.record import legacy_records as aiokafka
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.log.batches.records import Record
from trimaran.log.codecs.compression import Compression, OutputTooLarge, compress, decompress
from trimaran.log.old_formats.message_sets import (
    build_message_set,
    decode_message_set,
    inner_messages,
    iter_messages,
)
from trimaran.wire.errors import RemoteProtocolError

with warnings.catch_warnings():  # kafka-python loads JSON by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.legacy_records as kafka_python

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
# Neither library supports lz4 of v0 as installed; a literal and Kafka's own clients (tests/interop) verify that.
SPOKEN_BY_OTHERS = [(m, c) for m in (0, 1) for c in CODECS if (m, c) != (0, Compression.LZ4)]
MAYBE_BYTES = st.none() | st.binary(max_size=40)
TIMESTAMPS = st.integers(0, 1 << 50)


@st.composite
def records_of(draw, magic, first_offset=None):
    offset = draw(st.integers(0, 1 << 40)) if first_offset is None else first_offset
    records = []
    for _ in range(draw(st.integers(1, 6))):
        timestamp = draw(TIMESTAMPS) if magic else -1
        records.append(Record(offset, timestamp, draw(MAYBE_BYTES), draw(MAYBE_BYTES), ()))
        offset += draw(st.integers(1, 3))
    return records


def message(offset, magic, attributes, key, value, timestamp=None, crc=None):
    """Returns a message written by hand."""
    body = struct.pack(">bB", magic, attributes)
    body += b"" if magic == 0 else struct.pack(">q", timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    crc = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4, crc) + body


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
def test_built_message_set_is_read_back(magic, codec, data):
    records = data.draw(records_of(magic))
    built = build_message_set(records, magic=magic, compression=codec)
    assert decode_message_set(built) == records
    cut = data.draw(st.integers(0, len(built) - 1))
    whole = decode_message_set(built[:cut])
    assert whole == records[: len(whole)], "a message cut short is left out"
    assert len(whole) < len(records)


@pytest.mark.parametrize(("magic", "codec"), SPOKEN_BY_OTHERS)
@pytest.mark.parametrize("theirs", [kafka_python, aiokafka], ids=["kafka-python", "aiokafka"])
@given(data=st.data())
def test_other_clients_read_our_message_sets(theirs, magic, codec, data):
    records = data.draw(records_of(magic))
    built = build_message_set(records, magic=magic, compression=codec)
    found = []
    position = 0
    for outer in iter_messages(built):
        batch = theirs.LegacyRecordBatch(built[position : position + outer.size], magic)
        position += outer.size
        assert batch.validate_crc()
        found += [_plain(record) for record in batch]
    assert found == [(r.offset, r.timestamp_ms if magic else None, r.key, r.value) for r in records]


def _plain(one):
    return one.offset, one.timestamp, _bytes(one.key), _bytes(one.value)


def _bytes(part):
    return None if part is None else bytes(part)


@pytest.mark.parametrize(("magic", "codec"), SPOKEN_BY_OTHERS)
@pytest.mark.parametrize("theirs", [kafka_python, aiokafka], ids=["kafka-python", "aiokafka"])
@given(data=st.data())
def test_message_sets_of_other_clients_are_read(theirs, magic, codec, data):
    records = data.draw(records_of(magic, 0))
    builder = theirs.LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for offset, record in enumerate(records):  # producers number from 0 without gaps
        builder.append(offset, timestamp=record.timestamp_ms, key=record.key, value=record.value)
    found = decode_message_set(bytes(builder.build()))
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in found] == [
        (i, r.timestamp_ms, r.key, r.value) for i, r in enumerate(records)
    ]


def test_v0_and_v1_have_their_layout():
    record = Record(7, -1, None, b"v", ())
    assert build_message_set([record], magic=0) == message(7, 0, 0, None, b"v")
    record = Record(7, 5, b"k", None, ())
    assert build_message_set([record], magic=1) == message(7, 1, 0, b"k", None, 5)
    stamped = message(7, 1, 8, b"k", None, 99)
    assert build_message_set([record], magic=1, append_time_ms=99) == stamped


def test_v0_wrapper_offsets_absolute_v1_relative():
    records = [Record(70, 5, None, b"a", ()), Record(72, 9, None, b"b", ())]
    for magic, inner_offsets, timestamp in [(0, [70, 72], -1), (1, [0, 2], 9)]:
        built = build_message_set(records, magic=magic, compression=Compression.GZIP)
        (wrapper,) = iter_messages(built)
        assert (wrapper.offset, wrapper.key, wrapper.timestamp_ms) == (72, None, timestamp)
        inside = decompress(Compression.GZIP, wrapper.value, 1000)
        assert [message.offset for message in iter_messages(inside)] == inner_offsets


def test_wrapper_append_time_applies_to_inner_messages():
    inner = message(0, 1, 0, None, b"a", 1) + message(1, 1, 0, None, b"b", 2)
    packed = compress(Compression.GZIP, inner)
    assert [r.timestamp_ms for r in decode_message_set(message(9, 1, 9, None, packed, 77))] == [
        77
    ] * 2
    assert [r.timestamp_ms for r in decode_message_set(message(9, 1, 1, None, packed, 77))] == [
        1,
        2,
    ]


def test_wrapper_at_offset_zero_keeps_inner_offsets():
    inner = message(0, 1, 0, None, b"a", 1) + message(1, 1, 0, None, b"b", 2)
    packed = compress(Compression.GZIP, inner)
    assert [r.offset for r in decode_message_set(message(0, 1, 1, None, packed, 2))] == [0, 1]
    assert [r.offset for r in decode_message_set(message(1, 1, 1, None, packed, 2))] == [0, 1]


def test_lz4_of_v0_has_historic_header_checksum():
    text = b"some text " * 50
    broken, right = compress(Compression.LZ4, text, magic=0), compress(Compression.LZ4, text)
    assert [i for i in range(len(right)) if broken[i] != right[i]] == [6]
    # As kafka-clients 0.8.2.2 computes it for its own frames: version 1, independent blocks of 64 KiB.
    assert (right[:7].hex(), broken[:7].hex()) == ("04224d18604082", "04224d1860401a")
    for frame in (broken, right):
        assert decompress(Compression.LZ4, frame, 1000, magic=0) == text
    assert decompress(Compression.LZ4, right, 1000, magic=1) == text
    with pytest.raises(RemoteProtocolError):
        decompress(Compression.LZ4, broken, 1000, magic=1)


def nested(magic):
    inner = compress(Compression.GZIP, message(0, magic, 0, None, b"x", 1))
    return compress(Compression.GZIP, message(0, magic, 1, None, inner, 1))


@pytest.mark.parametrize(
    "damaged",
    [
        message(0, 0, 0, None, b"v", crc=1),
        message(0, 3, 0, None, b"v", 1),
        struct.pack(">qi", 0, 13) + bytes(13),
        struct.pack(">qi", 0, -1) + bytes(20),
        message(0, 1, 0, None, b"", 1)[:-9] + bytes(9),
        message(0, 1, 1, None, None, 1),
        message(0, 1, 1, None, b"no gzip", 1),
        message(0, 1, 4, None, b"", 1),
        message(0, 1, 7, None, b"", 1),
        message(0, 1, 1, None, compress(Compression.GZIP, b""), 1),
        message(0, 0, 1, None, nested(0)),
        message(0, 1, 1, None, nested(1), 1),
        message(3, 1, 1, None, compress(Compression.GZIP, message(4, 1, 0, None, b"", 1)), 1),
        message(
            0, 1, 1, None, compress(Compression.GZIP, message(0, 1, 0, None, b"", 1, crc=5)), 1
        ),
    ],
)
def test_damage_is_a_protocol_error(damaged):
    with pytest.raises(RemoteProtocolError):
        decode_message_set(damaged)


@given(st.binary(max_size=200), st.integers(0, 1), st.integers(0, 255))
def test_any_bytes_raise_only_expected_errors(value, magic, attributes):
    for data in (value, message(5, magic, attributes, None, value, 1)):
        assert_only_raises(RemoteProtocolError, partial(decode_message_set, data, 10_000))


@given(st.data(), st.sampled_from(CODECS), st.integers(0, 1))
def test_no_flipped_bits_go_unnoticed(data, codec, magic):
    built = bytearray(
        build_message_set([Record(3, 9, b"key", b"value", ())], magic=magic, compression=codec)
    )
    place = data.draw(st.integers(12, len(built) - 1))
    built[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteProtocolError):
        decode_message_set(bytes(built))


def test_decompressed_bytes_are_bounded_over_the_whole_set():
    one = build_message_set(
        [Record(0, 1, None, bytes(5000), ())], magic=1, compression=Compression.GZIP
    )
    assert len(decode_message_set(one * 3, 16_000)) == 3
    with pytest.raises(OutputTooLarge):
        decode_message_set(one * 4, 16_000)


def test_number_of_inner_messages_is_bounded(monkeypatch):
    records = [Record(i, 1, None, None, ()) for i in range(12)]
    (wrapper,) = iter_messages(build_message_set(records, magic=1, compression=Compression.GZIP))
    monkeypatch.setattr("trimaran.log.old_formats.message_sets.MESSAGES_MAX", 12)
    assert len(list(inner_messages(wrapper))) == 12
    monkeypatch.setattr("trimaran.log.old_formats.message_sets.MESSAGES_MAX", 11)
    with pytest.raises(OutputTooLarge):
        list(inner_messages(wrapper))
