"""Bulk decoding returns the same as decoding record by record, with the same errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch, decode_records, records_bytes
from trimaran.log.codecs.compression import Compression
from trimaran.spark.kafka_log.bulk import decode, gather, gather_headers
from trimaran.wire.errors import RemoteProtocolError

binary = st.none() | st.binary(max_size=300)
new_records = st.lists(
    st.builds(
        NewRecord,
        key=binary,
        value=binary,
        timestamp_ms=st.integers(-1, 2**45),
        headers=st.lists(st.tuples(st.text(max_size=5), binary), max_size=4),
    ),
    min_size=1,
    max_size=30,
)


def rows_of(batches):
    records = decode(batches, [records_bytes(batch) for batch in batches])
    headers = gather_headers(records).to_pylist()
    return list(
        zip(
            records.offset.tolist(),
            records.timestamp_ms.tolist(),
            gather(records.data, records.key).to_pylist(),
            gather(records.data, records.value).to_pylist(),
            [tuple((h["key"], h["value"]) for h in row or ()) for row in headers],
            strict=True,
        )
    )


def expected(batches):
    return [tuple(record) for batch in batches for record in decode_records(batch)]


@given(st.lists(st.tuples(new_records, st.sampled_from(list(Compression))), min_size=1, max_size=4))
def test_bulk_decoding_equals_single_decoding(made):
    batches, offset = [], 5
    for records, codec in made:
        built = build_batch(records, base_offset=offset, compression=codec)
        batches.append(BatchView(memoryview(built)))
        offset = batches[-1].next_offset + 3
    assert rows_of(batches) == expected(batches)


def test_varints_of_all_lengths_are_decoded():
    values = [bytes(n) for n in (0, 1, 63, 64, 8191, 8192, 1 << 20, (1 << 20) + 1)]
    built = build_batch([NewRecord(v[:100], v, i * 10**9) for i, v in enumerate(values)])
    batch = BatchView(memoryview(built))
    assert rows_of([batch]) == expected([batch])


def test_log_append_time_is_every_records_time():
    built = bytearray(build_batch([NewRecord(b"a", b"b", 5), NewRecord(b"c", b"d", 6)]))
    batch = BatchView(memoryview(built))
    batch.stamp_append_time(77)
    assert [row[1] for row in rows_of([batch])] == [77, 77]


@given(new_records, st.data())
def test_damaged_records_are_refused_or_read_alike(records, data):
    built = bytearray(build_batch(records))
    place = data.draw(st.integers(61, len(built) - 1))
    built[place] ^= data.draw(st.integers(1, 255))
    batch = BatchView(memoryview(built))
    try:
        rows = rows_of([batch])
    except RemoteProtocolError:
        return
    try:
        assert rows == expected([batch])
    except (
        RemoteProtocolError
    ):  # the strict decoder also refuses differences without a meaning here
        assert len(rows) == batch.count


@pytest.mark.parametrize("count", [2, 0, 2**31 - 1])
def test_wrong_count_is_refused(count):
    built = bytearray(build_batch([NewRecord(b"a", b"b", 5)]))
    built[57:61] = count.to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError):
        rows_of([BatchView(memoryview(built))])


def test_decompression_bomb_is_refused():
    built = build_batch([NewRecord(b"", bytes(1 << 20), 0)], compression=Compression.GZIP)
    with pytest.raises(RemoteProtocolError):
        records_bytes(BatchView(memoryview(built)), 1 << 16)


def decoded_of(*sizes):
    """Returns records with keys and values of these sizes; None means null."""
    made = [
        NewRecord(*(None if size is None else bytes([65 + n]) * size for size in pair), 5)
        for n, pair in enumerate(sizes)
    ]
    batch = BatchView(memoryview(build_batch(made)))
    return decode([batch], [records_bytes(batch)])


PIECES = [
    ([], 5, []),
    ([(2, 3)], 1, [1]),
    ([(2, 3), (0, 5)], 9, [1, 1]),
    ([(2, 3), (0, 5)], 10, [2]),
    ([(2, 3), (5, 0), (1, 1)], 10, [2, 1]),
    ([(1, 1), (9, 9), (1, 1), (1, 1)], 4, [1, 1, 2]),
    ([(None, None), (None, 3), (3, None)], 3, [2, 1]),
    ([(None, 0), (0, None), (1, 1)], 0, [2, 1]),
    ([(4, 4)] * 5, 16, [2, 2, 1]),
]


@pytest.mark.parametrize(("sizes", "bytes_max", "expected"), PIECES)
def test_pieces_hold_all_keys_and_values_that_fit(sizes, bytes_max, expected):
    if not sizes:
        whole = decoded_of((1, 1))
        whole = whole.keep(whole.offset < 0)
    else:
        whole = decoded_of(*sizes)
    made = list(whole.pieces(bytes_max))
    assert [len(piece) for piece in made] == expected
    assert [offset for piece in made for offset in piece.offset] == list(range(len(sizes)))
    if len(expected) == 1:
        assert made[0] is whole


def test_records_that_are_all_kept_are_not_copied():
    whole = decoded_of((1, 2), (None, 0), (0, None))
    assert whole.keep(whole.offset >= 0) is whole
    some = whole.keep(whole.offset != 1)
    assert some.offset.tolist() == [0, 2]
    assert gather(some.data, some.key).to_pylist() == [b"A", b""]
    assert gather(some.data, some.value).to_pylist() == [b"AA", None]
    none = whole.keep(whole.offset < 0)
    assert gather(none.data, none.key).to_pylist() == []


def test_absent_headers_are_null_and_non_text_refused():
    headers = [(), (("a", b"1"),), (("b", None), ("c", b""))]
    made = [NewRecord(b"k", b"v", 5, some) for some in headers]
    batch = BatchView(memoryview(build_batch(made)))
    found = gather_headers(decode([batch], [records_bytes(batch)])).to_pylist()
    assert found == [
        None,
        [{"key": "a", "value": b"1"}],
        [{"key": "b", "value": None}, {"key": "c", "value": b""}],
    ]
    damaged = bytearray(build_batch([NewRecord(b"k", b"v", 5, [("a", b"1")])]))
    damaged[damaged.index(b"a", 61)] = 0xFF
    batch = BatchView(memoryview(damaged))
    with pytest.raises(RemoteProtocolError, match="a header's key: "):
        gather_headers(decode([batch], [records_bytes(batch)]))
