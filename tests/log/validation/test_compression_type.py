"""A topic's `compression.type`: produced records are stored with the topic's codec, and their content stays the
same.
"""

import itertools
from random import Random

import pytest

from trimaran.log.batches.batch import check_batch, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression, compress
from trimaran.log.config import LogConfig
from trimaran.log.old_formats.message_sets import build_message_set, decode_message_set
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.log.validation.validate import (
    BYTES_CHECKED_AT_ONCE_MAX,
    OverBudget,
    ProduceRules,
    validate_produced,
)
from trimaran.wire.errors import ErrorCode, KafkaError

RECORDS = [
    NewRecord(b"k%d" % n if n % 3 else None, b"value %d " % n * 9, 1000 - n, [("h", b"x")])
    for n in range(40)
]
PRODUCER = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 30, "is_transactional": True}


def rules(codec, **changes):
    return ProduceRules.of(LogConfig(compression=codec, **changes))


@pytest.mark.parametrize(("sent", "stored"), list(itertools.product(Compression, repeat=2)))
def test_every_codec_becomes_the_topics(sent, stored):
    data = build_batch(RECORDS, compression=sent, **PRODUCER)
    [old] = iter_batches(data)
    [new] = validate_produced(memoryview(data), rules(stored), now_ms=1000)
    check_batch(new)
    assert new.compression is stored
    assert len(new.buffer) == new.size
    assert decode_records(new) == decode_records(old)
    for name in ("producer_id", "producer_epoch", "base_sequence", "count", "is_transactional"):
        assert getattr(new, name) == getattr(old, name)
    assert new.max_timestamp == 1000
    if sent is stored:
        assert bytes(new.buffer) == bytes(data), "the producer's bytes"


def test_producer_keeps_the_bytes_and_no_loop_compresses():
    data = memoryview(build_batch(RECORDS, compression=Compression.GZIP))
    [same] = validate_produced(data, rules(None), now_ms=1000, budget=BYTES_CHECKED_AT_ONCE_MAX)
    assert bytes(same.buffer) == bytes(data)
    with pytest.raises(OverBudget):
        validate_produced(
            data, rules(Compression.ZSTD), now_ms=1000, budget=BYTES_CHECKED_AT_ONCE_MAX
        )
    validate_produced(data, rules(Compression.GZIP), now_ms=1000, budget=BYTES_CHECKED_AT_ONCE_MAX)


def test_batch_too_large_after_recompression_is_refused():
    data = memoryview(build_batch(RECORDS, compression=Compression.ZSTD))
    small = rules(Compression.NONE, max_message_bytes=len(data))
    with pytest.raises(KafkaError, match="as none") as refused:
        validate_produced(data, small, now_ms=1000)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("stored", [None, *Compression])
def test_old_message_sets_get_the_topics_codec(stored):
    plain = build_batch([record._replace(headers=()) for record in RECORDS])
    [view] = iter_batches(plain)
    old = build_message_set(decode_records(view), magic=1, compression=Compression.GZIP)
    converted = convert_produced(memoryview(old), rules(stored), now_ms=1000)
    [new] = iter_batches(converted)
    assert new.compression is (Compression.GZIP if stored is None else stored)
    assert decode_records(new) == decode_message_set(old)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_higher_level_compresses_more(codec):
    words = b" ".join(Random(5).choices([b"word-%d" % n for n in range(3000)], k=30_000))
    low, high = (
        len(compress(codec, words, level=level))
        for level in (1, 12 if codec is Compression.LZ4 else 9)
    )
    assert high < low
    data = memoryview(build_batch([NewRecord(None, words, 1)]))
    sizes = [
        validate_produced(data, rules(codec, compression_level=level), now_ms=1)[0].size
        for level in (1, 8)
    ]
    assert sizes[1] < sizes[0]
