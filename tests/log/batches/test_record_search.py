"""The search of a batch for a record by time returns the same record as decoding all records, in little memory."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import view_of
from trimaran.log.batches import record_search
from trimaran.log.batches.batch import TimestampType
from trimaran.log.batches.record_search import find_record
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression, OutputTooLarge
from trimaran.wire.errors import RemoteProtocolError

RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=200),
        st.integers(0, 20),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=30)), max_size=4),
    ),
    min_size=1,
    max_size=12,
)


def naive(batch, timestamp_ms, start_offset):
    for record in decode_records(batch):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return record.timestamp_ms, record.offset
    return None


@given(
    RECORDS,
    st.sampled_from(Compression),
    st.sampled_from(TimestampType),
    st.integers(0, 22),
    st.integers(95, 115),
    st.sampled_from([25, 64, 1 << 20]),
    st.sampled_from([1, 3, 10_000]),
)
def test_search_matches_the_decoder(
    records, compression, timestamp_type, timestamp_ms, start_offset, piece_bytes, records_max
):
    batch = view_of(
        build_batch(
            records,
            base_offset=100,
            compression=compression,
            timestamp_type=timestamp_type,
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_search, "PIECE_BYTES", piece_bytes)
        patch.setattr(record_search, "RECORDS_MAX", records_max)
        assert find_record(batch, timestamp_ms, start_offset) == naive(
            batch, timestamp_ms, start_offset
        )


def test_record_larger_than_a_piece_is_skipped_cheaply(monkeypatch):
    """The batch has a few kilobytes: one record with a large value and many headers, and one after it."""
    monkeypatch.setattr(record_search, "PIECE_BYTES", 1 << 16)
    headers = [("", None)] * (64 << 10)
    batch = view_of(
        build_batch(
            [NewRecord(None, bytes(8 << 20), 1, headers), NewRecord(None, b"", 2)],
            compression=Compression.ZSTD,
        )
    )
    assert batch.size < 20_000
    find_record(batch, 3, 0)
    tracemalloc.start()
    try:
        assert find_record(batch, 1, 0) == (1, 0)
        assert find_record(batch, 2, 0) == (2, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_data_behind_limit_is_not_read():
    records = [NewRecord(None, bytes(1000), time) for time in range(100)]
    batch = view_of(build_batch(records, compression=Compression.GZIP))
    assert find_record(batch, 99, 0, limit_bytes=200_000) == (99, 99)
    with pytest.raises(OutputTooLarge):
        find_record(batch, 99, 0, limit_bytes=50_000)


@pytest.mark.parametrize("piece_bytes", [30, 1 << 20])
@pytest.mark.parametrize("change", [-1, 1])
def test_impossible_count_is_reported(monkeypatch, change, piece_bytes):
    monkeypatch.setattr(record_search, "PIECE_BYTES", piece_bytes)
    batch = view_of(build_batch([NewRecord(None, bytes(50), time) for time in range(5)]))
    batch.count += change
    with pytest.raises(RemoteProtocolError):
        find_record(batch, 9, 0)


def test_batch_without_records_decodes_to_none():
    batch = view_of(build_batch([NewRecord(None, b"", 1)], compression=Compression.LZ4))
    batch.count = 0
    assert find_record(batch, 0, 0) is None
