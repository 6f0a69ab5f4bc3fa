"""The fast checks that nearly all batches pass, compared with the full ones: same batch, same code, same message."""

import struct
from contextlib import contextmanager
from dataclasses import replace

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.batches.test_columns import both
from tests.log.helpers import batch_bytes
from tests.log.validation.test_validate import altered
from trimaran.log.batches.batch import BatchView, TimestampType
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.validation import validate
from trimaran.log.validation.validate import OverBudget, ProduceRules, validate_produced
from trimaran.wire.errors import ErrorCode, KafkaError

NOW = 1_000_000
CONFIGS = [
    LogConfig(),
    LogConfig(compacts=True),
    LogConfig(max_message_bytes=120),
    LogConfig(compression=Compression.NONE),
    LogConfig(compression=Compression.ZSTD),
    LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10),
    LogConfig(message_timestamp_after_max_ms=(1 << 63) - 1),
]
RULES = [ProduceRules.of(config) for config in CONFIGS]


@contextmanager
def using(**names):
    kept = {name: getattr(validate, name) for name in names}
    for name, value in names.items():
        setattr(validate, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(validate, name, value)


class FindsNothingSound:
    def __init__(self, _data):
        pass

    def has_sound_header(self, _batch):
        return False


def step_by_step():
    return using(Walker=FindsNothingSound)


def outcome(data, rules, **options):
    """Returns the batch, or the refusal, as comparable values; `data` is not changed."""
    try:
        [view] = validate_produced(memoryview(bytearray(data)), rules, now_ms=NOW, **options)
    except KafkaError as error:
        return error.code, error.message
    except OverBudget:
        return OverBudget
    return [
        bytes(getattr(view, name)) if name == "buffer" else getattr(view, name)
        for name in BatchView.__slots__
    ]


def passes_in_one_step(walk, data, rules):
    with using(Walker=walk.Walker):
        return validate._is_sound(
            memoryview(data), rules, validate._timestamp_limits(rules, NOW), None
        )


def with_crc(data):
    if len(data) > 21:
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


producers = st.sampled_from(
    [
        {},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 3, "base_sequence": 9, "is_transactional": True},
        {"producer_id": 5},
        {"is_transactional": True},
        {"is_control": True},
    ]
)
values = st.none() | st.binary(max_size=20)
records = st.builds(
    NewRecord,
    key=values,
    value=values,
    timestamp_ms=st.sampled_from([-1, 0, NOW - 11, NOW - 10, NOW, NOW + 10, NOW + 11, 1 << 50]),
    headers=st.lists(st.tuples(st.text(max_size=3), values), max_size=2),
)
built = st.builds(
    lambda some, fields, codec: bytearray(build_batch(some, compression=codec, **fields)),
    st.lists(records, min_size=1, max_size=5),
    producers,
    st.sampled_from([Compression.NONE] * 4 + list(Compression)),
)
# Mostly in the header, and often close to a valid value.
changes = st.lists(
    st.tuples(st.integers(0, 60) | st.integers(0, 200), st.sampled_from([0, 1, 2, 127, 128, 255])),
    max_size=3,
)
tails = st.sampled_from([b""] * 8 + [b"x", bytes(70)])


@both
@given(built, changes, tails, st.booleans(), st.sampled_from(RULES))
def test_one_step_equals_all_steps(walk, data, changed, tail, repairs, rules):
    data += tail
    for position, value in changed:
        data[position % len(data)] = value
    if repairs:
        with_crc(data)
    with step_by_step():
        expected = outcome(data, rules)
    with using(Walker=walk.Walker):
        assert outcome(data, rules) == expected


@both
@given(st.binary(max_size=150), st.sampled_from(RULES))
def test_arbitrary_bytes_give_same_outcome(walk, data, rules):
    with step_by_step():
        expected = outcome(data, rules)
    with using(Walker=walk.Walker):
        assert outcome(data, rules) == expected


@both
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True},
    ],
    ids=len,
)
def test_producer_batches_pass_in_one_step(walk, fields):
    data = batch_bytes(20, timestamp_ms=NOW, **fields)
    assert passes_in_one_step(walk, data, RULES[0])
    large = build_batch([NewRecord(b"k", bytes(1000), NOW) for _ in range(100)])
    assert passes_in_one_step(walk, large, RULES[0])


@both
@pytest.mark.parametrize("codec", list(Compression)[1:], ids=lambda codec: codec.name)
def test_compressed_batches_need_no_other_checks(walk, codec):
    data = build_batch([NewRecord(b"k", bytes(100), NOW)] * 20, compression=codec, **IDEMPOTENT)
    with using(Walker=walk.Walker, check_crc=None, _check_fields=None, _check_body=None):
        [batch] = validate_produced(memoryview(data), RULES[0], now_ms=NOW)
    assert batch.buffer == data


IDEMPOTENT = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
UNSOUND = [
    {"base_offset": 1},
    {"length": 48},
    {"magic": 1},
    {"crc": 0},
    {"attributes": Compression.LZ4},
    {"attributes": 0x10},  # transactional, but without a producer
    {"attributes": 0x08, **IDEMPOTENT},  # log append time
    {"attributes": 0x20, **IDEMPOTENT},  # control
    {"last_offset_delta": 3},
    {"last_offset_delta": -1, "count": 0, "payload": b"", "max_timestamp": -1},
    {"last_offset_delta": 1, "count": 2},
    {"count": 2},
    {"max_timestamp": NOW + 1},
    {"base_timestamp": -3},
    {**IDEMPOTENT, "producer_epoch": -1},
    {**IDEMPOTENT, "base_sequence": -1},
]


@both
@pytest.mark.parametrize("changed", UNSOUND, ids=str)
def test_unusual_batches_do_not_pass_in_one_step(walk, changed):
    data = altered(batch_bytes(3, timestamp_ms=NOW), **changed)
    assert not passes_in_one_step(walk, data, RULES[0])


@both
def test_batches_violating_topic_rules_do_not_pass(walk):
    no_key = build_batch([NewRecord(None, b"v", NOW)])
    assert passes_in_one_step(walk, no_key, RULES[0])
    assert not passes_in_one_step(walk, no_key, ProduceRules.of(LogConfig(compacts=True)))
    early = ProduceRules.of(LogConfig(message_timestamp_before_max_ms=10))
    assert not passes_in_one_step(walk, build_batch([NewRecord(b"k", b"v", NOW - 11)]), early)


class LooksAtNothing(FindsNothingSound):
    has_sound_header = None


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
def test_oversized_batch_is_refused_without_reading_it(codec):
    data = build_batch([NewRecord(None, bytes(range(200)), NOW)], compression=codec)
    with using(Walker=LooksAtNothing, check_crc=None):
        refusal = outcome(data, ProduceRules.of(LogConfig(max_message_bytes=len(data) - 1)))
    assert refusal[0] is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("max_timestamp", [NOW, NOW + 1], ids=["right", "wrong"])
def test_decompression_limit_ignores_uncompressed_batches(max_timestamp):
    data = altered(batch_bytes(1, timestamp_ms=NOW), max_timestamp=max_timestamp)
    [batch] = validate_produced(
        memoryview(data), replace(RULES[0], decompressed_bytes_max=0), now_ms=NOW
    )
    assert batch.max_timestamp == NOW


def test_batch_larger_than_budget_is_refused():
    data = batch_bytes(3, timestamp_ms=NOW)
    validate_produced(memoryview(data), RULES[0], now_ms=NOW, budget=len(data))
    assert outcome(data, RULES[0], budget=len(data) - 1) is OverBudget
    data[-1] ^= 1  # the walk refuses it; it is walked again for the error message
    assert outcome(with_crc(data), RULES[0], budget=len(data)) is OverBudget
