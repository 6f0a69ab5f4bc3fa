"""Produced message sets become v2, and batches of v2 become sets for old consumers: compared with naive conversions;
and refusals.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.old_formats.test_message_sets import CODECS, MAYBE_BYTES, message
from trimaran.log.batches.batch import HEADER_BYTES, BatchView, TimestampType, has_valid_crc
from trimaran.log.batches.records import NewRecord, Record, build_batch, decode_records
from trimaran.log.codecs.compression import Compression, compress
from trimaran.log.old_formats.down_conversion import OVERFLOW, down_convert
from trimaran.log.old_formats.message_sets import (
    build_message_set,
    decode_message_set,
    iter_messages,
)
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.log.validation.validate import ProduceRules, validate_produced
from trimaran.wire.errors import ErrorCode, KafkaError

NOW_MS = 1_000_000
RULES = ProduceRules(
    max_message_bytes=10_000,
    message_timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=500_000,
    timestamp_after_max_ms=1000,
)
TIMESTAMPS = st.integers(NOW_MS - 500_000, NOW_MS + 1000)
HEADERS = st.lists(st.tuples(st.text(max_size=3), MAYBE_BYTES), max_size=2)
NEW_RECORDS = st.lists(
    st.builds(NewRecord, MAYBE_BYTES, MAYBE_BYTES, TIMESTAMPS, HEADERS), min_size=1, max_size=5
)


def up(data, rules=RULES):
    return convert_produced(memoryview(data), rules, now_ms=NOW_MS)


def with_rules(**changes):
    return ProduceRules(**{name: getattr(RULES, name) for name in RULES.__slots__} | changes)


# -- to v2


@given(NEW_RECORDS, st.sampled_from(CODECS), st.integers(0, 1))
def test_produced_set_becomes_one_batch_with_same_records(new, codec, magic):
    expected = [
        Record(offset, record.timestamp_ms if magic else -1, record.key, record.value, ())
        for offset, record in enumerate(new)
    ]
    batch = up(build_message_set(expected, magic=magic, compression=codec))
    (view,) = validate_produced(memoryview(batch), RULES, now_ms=NOW_MS)
    assert decode_records(view) == expected
    assert (view.compression, view.base_offset, view.producer_id) == (codec, 0, -1)


def test_producer_offsets_are_renumbered():
    inner = message(9, 1, 0, None, b"a", NOW_MS) + message(4, 1, 0, None, b"b", NOW_MS)
    for data in (inner, message(4, 1, 1, None, compress(Compression.GZIP, inner), NOW_MS)):
        assert [(r.offset, r.value) for r in decode_records(BatchView(up(data)))] == [
            (0, b"a"),
            (1, b"b"),
        ]


PLAIN = message(0, 1, 0, b"k", b"v", NOW_MS)
INNER = message(0, 1, 0, None, b"v", NOW_MS)
BAD_CRC = message(0, 1, 0, None, b"v", NOW_MS, crc=1)


def wrapped(inner, magic=1, codec=1, offset=0, attributes=0):
    return message(offset, magic, codec | attributes, None, inner, NOW_MS)


def gzipped(inner, **changes):
    return wrapped(compress(Compression.GZIP, inner), **changes)


def test_incomplete_message_converts_to_nothing():
    assert up(b"") is up(PLAIN[:-1]) is up(PLAIN[:7]) is None
    assert BatchView(up(PLAIN + PLAIN[:20])).count == 1
    inner = INNER + INNER[:9]
    assert BatchView(up(gzipped(inner))).count == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(0, 1, 0, None, b"v", NOW_MS, crc=1), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, 13) + bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, -5) + bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (PLAIN + message(0, 3, 0, None, b"v", NOW_MS), ErrorCode.CORRUPT_MESSAGE),
        (PLAIN + message(0, 0, 0, None, b"v"), ErrorCode.INVALID_RECORD),
        (PLAIN + gzipped(INNER), ErrorCode.INVALID_RECORD),
        (gzipped(INNER) * 2, ErrorCode.INVALID_RECORD),
        (wrapped(None), ErrorCode.INVALID_RECORD),
        (wrapped(b"damage"), ErrorCode.INVALID_RECORD),
        (gzipped(b""), ErrorCode.INVALID_RECORD),
        (gzipped(BAD_CRC), ErrorCode.CORRUPT_MESSAGE),
        (gzipped(gzipped(INNER)), ErrorCode.INVALID_RECORD),
        (gzipped(message(0, 0, 0, None, b"v")), ErrorCode.INVALID_RECORD),
        (gzipped(INNER, magic=0), ErrorCode.INVALID_RECORD),
        (gzipped(message(5, 1, 0, None, b"v", NOW_MS), offset=4), ErrorCode.INVALID_RECORD),
        (wrapped(compress(Compression.ZSTD, INNER), codec=4), ErrorCode.INVALID_RECORD),
        (wrapped(b"", codec=5), ErrorCode.INVALID_RECORD),
        (wrapped(b"", codec=7), ErrorCode.INVALID_RECORD),
        (message(0, 1, 0, None, b"v", NOW_MS + 1001), ErrorCode.INVALID_TIMESTAMP),
        (message(0, 1, 0, None, b"v", NOW_MS - 500_001), ErrorCode.INVALID_TIMESTAMP),
        (message(0, 1, 0, None, b"v", -2), ErrorCode.INVALID_TIMESTAMP),
        (message(0, 1, 8, None, b"v", -1), ErrorCode.INVALID_TIMESTAMP),
        (gzipped(message(0, 1, 0, None, b"v", 1)), ErrorCode.INVALID_TIMESTAMP),
        (message(0, 1, 0, None, bytes(9967), NOW_MS), ErrorCode.MESSAGE_TOO_LARGE),
        (message(0, 1, 0, None, bytes(4000), NOW_MS) * 3, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_invalid_message_set_is_refused(data, code):
    with pytest.raises(KafkaError) as caught:
        up(data)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "data",
    [
        message(0, 1, 0, None, bytes(9800), NOW_MS),
        message(0, 1, 0, None, b"v", NOW_MS + 1000),
        message(0, 1, 8, None, b"v", NOW_MS),
        gzipped(INNER, attributes=8),
        gzipped(INNER, offset=0),
        message(0, 0, 8, None, b"v"),
    ],
)
def test_converted_batch_has_valid_crc(data):
    assert has_valid_crc(BatchView(up(data)))


def test_compacted_topic_requires_keys():
    rules = with_rules(requires_keys=True)
    assert up(PLAIN, rules) is not None
    for data in (PLAIN + INNER, gzipped(INNER)):
        with pytest.raises(KafkaError) as caught:
            up(data, rules)
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_append_time_topic_checks_only_timestamp_type():
    rules = with_rules(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    for timestamp in (-5, 1, (1 << 63) - 1):
        assert up(message(0, 1, 0, None, b"v", timestamp), rules) is not None
    with pytest.raises(KafkaError) as caught:
        up(message(0, 1, 8, None, b"v", NOW_MS), rules)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@given(st.binary(max_size=100), st.integers(0, 2), st.integers(0, 255), st.integers(-3, 1 << 62))
def test_any_bytes_raise_only_a_code(value, magic, attributes, timestamp):
    for data in (value, message(5, magic, attributes, None, value, timestamp)):
        try:
            batch = up(data)
        except KafkaError:
            continue
        if batch is not None:
            assert validate_produced(memoryview(batch), RULES, now_ms=NOW_MS)


def test_decompressed_bytes_are_bounded():
    with pytest.raises(KafkaError) as caught:
        up(
            gzipped(message(0, 1, 0, None, bytes(5000), NOW_MS)),
            with_rules(decompressed_bytes_max=4000),
        )
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_inner_message_has_its_own_limit():
    """`max.decompressed.message.bytes` includes the message's own header."""
    inner = message(0, 1, 0, None, bytes(500), NOW_MS)
    size = len(inner) - 12
    assert up(gzipped(inner), with_rules(record_bytes_max=size)) is not None
    assert up(inner, with_rules(record_bytes_max=1)) is not None
    with pytest.raises(KafkaError) as caught:
        up(gzipped(inner), with_rules(record_bytes_max=size - 1))
    assert caught.value.code is ErrorCode.INVALID_RECORD


# -- from v2


@st.composite
def batches_of_v2(draw):
    """Returns adjacent batches, and their records by batch."""
    data, found = b"", []
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 4))):
        new = draw(NEW_RECORDS)
        append_time = draw(st.sampled_from(TimestampType))
        batch = build_batch(
            new,
            base_offset=offset,
            compression=draw(st.sampled_from(CODECS)),
            timestamp_type=append_time,
            is_control=draw(st.integers(0, 4)) == 0,
        )
        view = BatchView(batch)
        found.append((view, decode_records(view)))
        data += batch
        offset = view.next_offset + draw(st.integers(0, 2))
    return data, found


def obvious_down_conversion(found, magic, first_offset):
    return [
        Record(r.offset, r.timestamp_ms if magic else -1, r.key, r.value, ())
        for view, records in found
        if not view.is_control
        for r in records
        if r.offset >= first_offset or view.compression is not Compression.NONE
    ]


@given(batches_of_v2(), st.integers(0, 1), st.data())
def test_old_consumer_reads_the_same_records(batches, magic, data):
    stored, found = batches
    first_offset = data.draw(st.integers(found[0][0].base_offset, found[0][0].last_offset))
    expected = obvious_down_conversion(found, magic, first_offset)
    converted = down_convert(stored, magic, first_offset)
    if not expected:
        assert converted == OVERFLOW
        return
    got = decode_message_set(converted)
    assert got == expected[: len(got)]
    firsts = [[r.offset for r in records] for _, records in found]
    first = next(offsets for offsets in firsts if got[0].offset in offsets)
    assert len(converted) <= len(stored) or got[-1].offset in first, "only the first may be larger"
    if len(got) < len(expected):
        assert got[-1].offset in {view.last_offset for view, _ in found}, "ends with a whole batch"


@given(NEW_RECORDS, st.sampled_from(CODECS))
def test_round_trip_keeps_the_records(new, codec):
    stored = build_batch(new, compression=codec)
    back = BatchView(up(down_convert(stored, 1, 0)))
    without_headers = [r._replace(headers=()) for r in decode_records(BatchView(stored))]
    assert decode_records(back) == without_headers
    assert back.compression is codec


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_marked(codec):
    new = [NewRecord(None, b"v", NOW_MS - 5), NewRecord(None, b"w", NOW_MS)]
    for time in TimestampType:
        stored = build_batch(new, compression=codec, timestamp_type=time)
        outer = list(iter_messages(down_convert(stored, 1, 0)))
        assert {message.timestamp_type for message in outer} == {time}
        assert outer[-1].timestamp_ms == NOW_MS
        v0 = iter_messages(down_convert(stored, 0, 0))
        assert {message.attributes for message in v0} == {int(codec)}


def test_first_batch_is_complete_size_limits_others():
    small = [NewRecord(None, b"", NOW_MS)] * 10  # each record takes about 8 bytes, and 34 as v1
    one, two = build_batch(small), build_batch(small, base_offset=10)
    assert len(decode_message_set(down_convert(one, 1, 0))) == 10
    assert len(decode_message_set(down_convert(one + two, 1, 0))) == 10
    assert len(decode_message_set(down_convert(one + two, 1, 9))) == 1
    large = build_batch([NewRecord(None, bytes(2000), NOW_MS)], base_offset=10)
    assert len(decode_message_set(down_convert(large + one, 1, 0))) == 1
    packed = build_batch(small, compression=Compression.GZIP)
    assert len(decode_message_set(down_convert(packed, 1, 9))) == 10, "compressed ones stay whole"


def test_leading_zstd_batch_is_refused():
    plain = build_batch([NewRecord(None, bytes(500), NOW_MS)])
    zstd = build_batch([NewRecord(None, b"v", NOW_MS)], base_offset=1, compression=Compression.ZSTD)
    assert [r.offset for r in decode_message_set(down_convert(plain + zstd, 1, 0))] == [0]
    with pytest.raises(KafkaError) as caught:
        down_convert(zstd + plain, 1, 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_damaged_stored_batch_has_error_code():
    stored = bytearray(build_batch([NewRecord(None, b"value", NOW_MS)]))
    stored[HEADER_BYTES] = 0x7F
    with pytest.raises(KafkaError) as caught:
        down_convert(bytes(stored), 0, 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


FUZZED = (
    "00000000000000000000005bffffffff029f46a5660003000000010000e500cf0068018b00018bcfe56801ffffffffffffffffffffffffffff"
    "0000000204224d186040821b00008016000000010a76616c7565001c00022d026b010402680276026e0100000000"
)


@pytest.mark.parametrize("magic", [0, 1])
def test_stored_record_before_its_batch_is_corrupt(magic):
    """Fuzzing found this case: its offset delta is negative."""
    with pytest.raises(KafkaError) as caught:
        down_convert(bytes.fromhex(FUZZED), magic, 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_stored_record_with_impossible_time_is_corrupt():
    batch = bytearray(build_batch([NewRecord(None, b"v", 1), NewRecord(None, b"v", 2)]))
    struct.pack_into(">q", batch, 27, 2**63 - 1)  # the base timestamp
    with pytest.raises(KafkaError) as caught:
        down_convert(batch, 1, 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_empty_data_converts_to_empty():
    assert down_convert(b"", 0, 0) == b""
