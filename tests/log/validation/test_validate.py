"""The checks of Produce: each row of the plan of malformed batches (mB2–mB15) and its error code."""

import struct
from functools import partial
from unittest import mock

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from tests.log.batches.test_records import FROM_KAFKA, LEADER_CHANGE
from tests.log.helpers import batch_bytes
from trimaran.log.batches.batch import HEADER, HEADER_BYTES, TimestampType
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression, compress
from trimaran.log.config import LogConfig
from trimaran.log.validation import record_sizes
from trimaran.log.validation.validate import OverBudget, ProduceRules, validate_produced
from trimaran.wire.errors import ErrorCode, KafkaError

NOW = 1_000_000
KAFKAS_NOW = 1_795_230_277_000  # when Kafka wrote FROM_KAFKA
RULES = ProduceRules.of(LogConfig(max_message_bytes=10_000))
COMPACTED = ProduceRules.of(LogConfig(max_message_bytes=10_000, compacts=True))
FIELDS = [
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
]


def produce(data, rules=RULES, **options):
    return validate_produced(memoryview(data), rules, now_ms=NOW, **options)


def assert_refused(data, code, rules=RULES, **options):
    with pytest.raises(KafkaError) as raised:
        produce(data, rules, **options)
    assert raised.value.code is code, raised.value


def altered(data, *, payload=None, **changes):
    """Returns the batch with other header fields or records, and a right CRC."""
    values = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True))
    payload = bytes(data[HEADER_BYTES:]) if payload is None else payload
    values["length"] = 49 + len(payload)
    values.update(changes)
    out = bytearray(HEADER.pack(*values.values()) + payload)
    if "crc" not in changes:
        struct.pack_into(">I", out, 17, crc32c.crc32c(bytes(out[21:])))
    return out


def good(count=3, **fields):
    return batch_bytes(count, timestamp_ms=NOW, **fields)


@pytest.mark.parametrize("kind", Compression)
@pytest.mark.parametrize("rules", [RULES, COMPACTED])
def test_good_batches_pass(kind, rules):
    [view] = produce(
        good(20, compression=kind, producer_id=5, producer_epoch=0, base_sequence=9), rules
    )
    assert (view.count, view.compression) == (20, kind)


@pytest.mark.parametrize("name", FROM_KAFKA)
def test_batches_of_real_clients_pass(name):
    data = bytes.fromhex(FROM_KAFKA[name])
    [view] = validate_produced(memoryview(data), RULES, now_ms=KAFKAS_NOW)
    assert view.buffer == data


def test_every_flipped_bit_of_the_header_is_refused():
    """mB2; the exceptions: the epoch is ours to write; a base offset is INVALID_RECORD, as in Kafka, and so are magics
    0 and 1.
    """
    data = good()
    for position in range(HEADER_BYTES):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            if 12 <= position < 16:
                assert produce(damaged)
            elif position < 8 or (position == 16 and damaged[16] in (0, 1)):
                assert_refused(damaged, ErrorCode.INVALID_RECORD)
            else:
                codes = {ErrorCode.CORRUPT_MESSAGE}
                if position in (21, 22) or position < 12:
                    codes |= {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.INVALID_RECORD}
                with pytest.raises(KafkaError) as raised:
                    produce(damaged)
                assert raised.value.code in codes, (position, bit)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic_is_refused(magic):
    assert_refused(altered(good(), magic=magic), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_unknown_magic_is_corrupt(magic):
    """A Kafka 4.3 broker answers in the same way (`ByteBufferLogInputStream`)."""
    assert_refused(altered(good(), magic=magic), ErrorCode.CORRUPT_MESSAGE)


def test_too_small_size_is_damage():
    assert_refused(altered(good(), length=100), ErrorCode.CORRUPT_MESSAGE)


def test_two_batches_or_none_are_refused():
    assert_refused(good() + good(), ErrorCode.INVALID_RECORD)
    assert_refused(good() + b"x", ErrorCode.INVALID_RECORD)
    assert_refused(b"", ErrorCode.INVALID_RECORD)
    assert_refused(good()[:60], ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 13, 48, 10_000, 2**31 - 1])
def test_impossible_size_is_corrupt(length):
    assert_refused(altered(good(), length=length), ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("kind", [5, 6, 7])
def test_unknown_compression_is_refused(kind):
    assert_refused(altered(good(), attributes=kind), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_zstd_is_refused_below_version_7():
    data = good(compression=Compression.ZSTD)
    assert_refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, version=6)
    assert produce(data, version=7)


def test_control_batch_of_client_is_refused():
    assert_refused(altered(good(), attributes=0x20), ErrorCode.INVALID_RECORD)
    assert_refused(bytes.fromhex(LEADER_CHANGE), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("bit", [0x40, *(1 << position for position in range(7, 15)), -0x8000])
@pytest.mark.parametrize("kind", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("rules", [RULES, COMPACTED])
def test_reserved_attribute_bits_are_refused(bit, kind, rules):
    """Bit 6 is for the log cleaner (KIP-534); later Kafka versions may define the rest."""
    data = good(compression=kind)
    assert_refused(altered(data, attributes=bit | kind), ErrorCode.INVALID_RECORD, rules)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 2},
        {"count": 4},
        {"count": 0},
        {"count": -1},
        {"last_offset_delta": 1},
        {"last_offset_delta": -1},
        {"count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
    ],
)
def test_contradicting_counts_are_refused(changes):
    assert_refused(altered(good(), **changes), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 5},
        {"producer_id": 5, "producer_epoch": 0},
        {"producer_id": 5, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -2},
        {"is_transactional": True},
    ],
)
def test_incomplete_producer_fields_are_refused(fields):
    assert_refused(good(**fields), ErrorCode.INVALID_RECORD)


def test_sequence_may_wrap():
    assert produce(good(producer_id=5, producer_epoch=0, base_sequence=2**31 - 1))


@pytest.mark.parametrize("timestamp", [-2, -(2**63), 2**63 - 1, NOW + 3_600_001])
def test_timestamp_out_of_range_is_refused(timestamp):
    """mB12: the timestamps of the records are checked, which are relative to the base."""
    for count in (1, 3):
        data = altered(good(count, step_ms=0), base_timestamp=timestamp)
        assert_refused(data, ErrorCode.INVALID_TIMESTAMP)


@pytest.mark.parametrize("timestamp", [-2, -1, 0, -(2**63), 2**63 - 1, NOW, NOW + 3_600_001])
def test_wrong_max_timestamp_in_header_is_corrected(timestamp):
    data = altered(good(3), max_timestamp=timestamp)
    for records in (data, bytes(data)):
        [view] = validate_produced(memoryview(records), RULES, now_ms=NOW)
        assert bytes(view.buffer) == bytes(good(3))
        assert view.max_timestamp == NOW + 2


def test_timestamp_too_old_is_refused():
    rules = ProduceRules.of(LogConfig(message_timestamp_before_max_ms=10))
    assert produce(batch_bytes(1, timestamp_ms=NOW - 10), rules)
    assert_refused(batch_bytes(1, timestamp_ms=NOW - 11), ErrorCode.INVALID_TIMESTAMP, rules)
    assert produce(batch_bytes(1, timestamp_ms=-1), rules), "no timestamp at all is allowed"


def test_append_time_topic_ignores_create_time_timestamps():
    rules = ProduceRules.of(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert produce(altered(good(), max_timestamp=2**62), rules)
    for either in (RULES, rules):
        assert_refused(
            good(timestamp_type=TimestampType.LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP, either
        )


def test_too_large_batch_is_refused():
    data = good(1, value=bytes(10_000))
    assert_refused(data, ErrorCode.MESSAGE_TOO_LARGE)


def test_batch_over_budget_is_refused_before_crc():
    """The checksum is verified only if the batch fits the budget."""
    damaged = altered(good(), crc=0)
    assert_refused(damaged, ErrorCode.CORRUPT_MESSAGE, budget=len(damaged))
    zstd = ProduceRules.of(LogConfig(max_message_bytes=10_000, compression=Compression.ZSTD))
    for rules, bytes_left in ((RULES, len(damaged) - 1), (zstd, len(damaged))):
        with pytest.raises(OverBudget):
            produce(damaged, rules, budget=bytes_left)
    too_large = ProduceRules.of(LogConfig(max_message_bytes=len(damaged) - 1))
    assert_refused(good(), ErrorCode.MESSAGE_TOO_LARGE, too_large, budget=0)


def test_null_key_in_compacted_topic_is_refused():
    """mB13: this includes large and compressed batches."""
    records = [NewRecord(b"k", b"v", NOW)] * 30 + [NewRecord(None, b"v", NOW)]
    for kind in (Compression.NONE, Compression.LZ4):
        data = build_batch(records, compression=kind)
        assert_refused(data, ErrorCode.INVALID_RECORD, COMPACTED)
        assert produce(data, RULES)


def test_timestamp_of_any_record_is_checked():
    late = record(b"\0" + b"\x80\x80\x80\x80\x10" + b"\0\1\1\0")
    assert_refused(altered(good(1), payload=late), ErrorCode.INVALID_TIMESTAMP)
    overflow = record(b"\0" + b"\xfe" + b"\xff" * 8 + b"\1" + b"\0\1\1\0")
    assert_refused(altered(good(1), payload=overflow), ErrorCode.INVALID_RECORD)


def record(body):
    assert len(body) < 64
    return bytes([2 * len(body)]) + body


WHOLE = b"\0\0\0\1\1\0"  # attributes, deltas 0, null key, null value, no headers
MALFORMED = {
    "length too large": bytes([2 * len(WHOLE) + 2]) + WHOLE,
    "length too small": bytes([2 * len(WHOLE) - 2]) + WHOLE,
    "length negative": b"\1" + WHOLE,
    "length of 2^31": b"\xfe\xff\xff\xff\x0f" + WHOLE,
    "length never ends": b"\xff" * 12,
    "headers negative": record(b"\0\0\0\1\1\1"),
    "headers beyond the end": record(b"\0\0\0\1\1\x7e"),
    "null header key": record(b"\0\0\0\1\1\2\1\1"),
    "key size -2": record(b"\0\0\0\3\1\0"),
    "key beyond the end": record(b"\0\0\0\x7e\1\0"),
    "value beyond the end": record(b"\0\0\0\1\x7e\0"),
    "offset delta 1 first": record(b"\0\0\2\1\1\0"),
    "offset delta negative": record(b"\0\0\1\1\1\0"),
    "timestamp delta never ends": record(b"\0" + b"\xff" * 11 + b"\0\1\1\0"),
    "a record more": record(WHOLE) * 2,
    "bytes after": record(WHOLE) + b"\0",
    "empty": b"",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_record_of_small_batch_is_refused(name):
    """mB7, mB8."""
    assert produce(altered(good(1), payload=record(WHOLE)))
    assert_refused(altered(good(1), payload=MALFORMED[name]), ErrorCode.INVALID_RECORD)


def many(payload):
    count = 100
    records = b"".join(record(b"\0\0" + _varint(i) + b"\1\1\0") for i in range(count - 1)) + payload
    return altered(good(1), payload=records, count=count, last_offset_delta=count - 1)


def _varint(number):
    number *= 2
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


@pytest.mark.parametrize("name", sorted(MALFORMED.keys() - {"a record more", "empty"}))
def test_malformed_record_of_large_batch_is_refused(name):
    assert produce(many(record(b"\0\0" + _varint(99) + b"\1\1\0")))
    assert_refused(many(MALFORMED[name]), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("kind", [k for k in Compression if k is not Compression.NONE])
def test_damaged_compressed_records_are_refused(kind):
    data = good(50, compression=kind)
    payload = bytes(data[HEADER_BYTES:])
    assert_refused(altered(data, payload=payload[:-5]), ErrorCode.INVALID_RECORD)
    assert_refused(altered(data, payload=payload + b"garbage"), ErrorCode.INVALID_RECORD)
    assert_refused(altered(data, payload=b"\0" * 30), ErrorCode.INVALID_RECORD)


def test_decompression_stops_at_the_limit():
    bomb = build_batch([NewRecord(b"k", bytes(50 << 20), NOW)], compression=Compression.ZSTD)
    rules = ProduceRules.of(LogConfig())
    small = ProduceRules(
        **{
            name: getattr(rules, name)
            for name in rules.__slots__
            if name != "decompressed_bytes_max"
        },
        decompressed_bytes_max=1 << 20,
    )
    assert_refused(bomb, ErrorCode.INVALID_RECORD, small)


def limited(limit):
    return ProduceRules.of(
        LogConfig(max_message_bytes=10_000, max_decompressed_message_bytes=limit)
    )


COMPRESSED = [kind for kind in Compression if kind is not Compression.NONE]


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("budget", [None, 1 << 20])
def test_decompressed_record_has_its_own_limit(kind, budget):
    """The length field of a record does not count: here it has two bytes."""
    values = [b"", bytes(300), b"x"]
    data = build_batch([NewRecord(b"k", value, NOW) for value in values], compression=kind)
    size = 300 + len(b"k") + 7  # attributes, two deltas, the sizes of key, value and headers
    for limit in (size, size + 1, 1000):
        assert produce(data, limited(limit), budget=budget)[0].count == 3
    for limit in (1, 10, size - 1):
        assert_refused(data, ErrorCode.INVALID_RECORD, limited(limit), budget=budget)


def test_uncompressed_records_have_no_limit_of_their_own():
    data = build_batch([NewRecord(b"k", bytes(300), NOW)])
    assert produce(data, limited(10))[0].count == 1


def test_malformed_records_are_refused_below_record_limit():
    body = compress(Compression.GZIP, bytes(30))
    data = altered(good(), payload=body, attributes=Compression.GZIP)
    for limit in (5, 1000):
        assert_refused(data, ErrorCode.INVALID_RECORD, limited(limit))


def test_record_size_precedes_its_timestamp():
    late = NewRecord(b"k", bytes(300), NOW + 4_000_000)
    data = build_batch([late], compression=Compression.GZIP)
    assert_refused(data, ErrorCode.INVALID_TIMESTAMP)
    assert_refused(data, ErrorCode.INVALID_RECORD, limited(100))


@given(st.lists(st.integers(0, 90), min_size=1, max_size=8), st.integers(1, 110), st.integers(1, 3))
def test_largest_record_exceeds_the_limit(sizes, limit, at_once):
    data = build_batch(
        [NewRecord(None, bytes(size), NOW) for size in sizes], compression=Compression.GZIP
    )
    with mock.patch.object(record_sizes, "_RECORDS_AT_ONCE", at_once):
        if max(sizes) + 7 + (max(sizes) > 63) <= limit:
            assert produce(data, limited(limit))[0].count == len(sizes)
        else:
            assert_refused(data, ErrorCode.INVALID_RECORD, limited(limit))


@given(st.binary(max_size=150))
def test_any_bytes_give_a_batch_or_a_code(data):
    for rules in (RULES, COMPACTED):
        assert_only_raises(KafkaError, partial(produce, data, rules))


@given(
    st.sampled_from(sorted(FROM_KAFKA)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_mutations_with_valid_crc_yield_batch_or_code(name, changes):
    data = bytearray.fromhex(FROM_KAFKA[name])
    for position, value in changes:
        data[position % len(data)] = value
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    for rules in (RULES, COMPACTED):
        view = memoryview(data)
        assert_only_raises(KafkaError, partial(validate_produced, view, rules, now_ms=KAFKAS_NOW))
