"""Chunks of records: their ends, their part of the range, and their maximal size, without a file."""

import pytest

from tests.spark.kafka_log.pieces import Piece
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log import bulk, records
from trimaran.spark.kafka_log.records import _chunks, read_records
from trimaran.spark.origins.origin import DEFAULT_READING, DataUnreadable, Reading


def built(offset, count, size=10, **fields):
    made = [NewRecord(b"k", b"v" * size, 5) for _ in range(count)]
    return build_batch(made, base_offset=offset, **fields)


def piece_of(*counts, size=10, **members):
    data, offset = [], 0
    for count in counts:
        data.append(built(offset, count, size))
        offset += count
    return Piece(data, **members)


def offsets_of(piece, **reading):
    made = read_records([piece], ReadRequest(("offset",), Reading(**reading)))
    return [row["offset"] for batch in made for row in batch.to_pylist()]


def body_bytes(count):
    return len(built(0, count)) - 61


CHUNKS = [
    # maximal records, maximal bytes of batches with one record each; sizes of the chunks of 2, 3, 1 and 4 records
    (1, 99, [[2], [3], [1], [4]]),
    (4, 99, [[2], [3, 1], [4]]),
    (5, 99, [[2, 3], [1, 4]]),
    (6, 99, [[2, 3, 1], [4]]),
    (9, 99, [[2, 3, 1], [4]]),
    (10, 99, [[2, 3, 1, 4]]),
    (99, 4, [[2], [3, 1], [4]]),
    (99, 5, [[2, 3], [1, 4]]),
    (99, 10, [[2, 3, 1, 4]]),
]


@pytest.mark.parametrize(("count", "size", "chunks"), CHUNKS)
def test_chunk_is_bounded_by_records_and_bytes(monkeypatch, count, size, chunks):
    monkeypatch.setattr(records, "CHUNK_RECORDS", count)
    monkeypatch.setattr(records, "CHUNK_BYTES", size * body_bytes(1))
    piece = piece_of(2, 3, 1, 4)
    made = list(_chunks(piece, DEFAULT_READING))
    assert [[batch.count for batch in chunk.batches] for chunk in made] == chunks
    for chunk in made:
        assert [located.batch.base_offset for located in chunk.located] == [
            batch.base_offset for batch in chunk.batches
        ]
        assert [len(body) for body in chunk.bodies] == [body_bytes(b.count) for b in chunk.batches]
        assert chunk.piece is piece


def test_batch_too_large_to_hold_is_own_chunk(monkeypatch):
    monkeypatch.setattr(records, "LARGE_BYTES", body_bytes(3))
    made = list(_chunks(piece_of(2, 3, 4, 1), DEFAULT_READING))
    assert [([b.count for b in chunk.batches], chunk.bodies is None) for chunk in made] == [
        ([2, 3], False),
        ([4], True),
        ([1], False),
    ]
    assert offsets_of(piece_of(2, 3, 4, 1)) == list(range(10))


def test_memory_bounds_are_as_documented():
    assert (records.CHUNK_RECORDS, records.CHUNK_BYTES) == (50_000, 8 << 20)
    assert (bulk.LARGE_BYTES, records.ARROW_BYTES_MAX) == (32 << 20, 24 << 20)
    assert (bulk.PIECE_BYTES, bulk.RECORDS_MAX) == (8 << 20, 50_000)
    assert offsets_of(piece_of(2)) == [0, 1]
    (located,) = piece_of(2).located()
    assert sum(map(len, bulk.decode_in_pieces(located.batch, 99))) == 2


@pytest.mark.parametrize(
    ("start", "end", "starts", "expected"),
    [
        (0, 9, [], range(9)),
        (1, 8, [], range(1, 8)),
        (3, 3, [], []),
        (2, 9, [0, 0, 2], range(2, 9)),
        (0, 9, [0, 0, 8], [0, 1, 2, 3, 4, 5, 8]),  # the log's start when each was read
        (4, 9, [0, 0, 7], [4, 5, 7, 8]),
        (4, 9, [0, 5, 7], [5, 7, 8]),
        (0, 9, [1, 4, 8], [1, 2, 4, 5, 8]),
    ],
)
def test_records_in_range_and_not_deleted_are_read(start, end, starts, expected):
    piece = piece_of(3, 3, 3, start_offset=start, end_offset=end, log_starts=starts)
    assert offsets_of(piece) == list(expected)


def spoiled(offset):
    data = bytearray(built(offset, 2))
    data[61] = 1  # a negative length
    return bytes(data)


def test_damaged_batch_is_named_by_first_offset(caplog):
    piece = Piece([spoiled(4), built(6, 1)])
    with pytest.raises(DataUnreadable, match=r"^file:/d/t-3/0.log, offset 4: "):
        offsets_of(piece)
    offsets_of(piece, fail_on_data_loss=False)
    assert "file:/d/t-3/0.log, offset 4: " in caplog.text


def test_undecompressable_batch_is_reported_and_left_out(caplog):
    data = bytearray(built(4, 2, compression=Compression.GZIP))
    data[61:65] = b"none"
    piece = Piece([built(3, 1), bytes(data), built(6, 1)])
    with pytest.raises(DataUnreadable, match=r"^file:/d/t-3/0.log, offset 4: "):
        offsets_of(piece)
    assert offsets_of(piece, fail_on_data_loss=False) == [3, 6]
    assert "file:/d/t-3/0.log, offset 4: " in caplog.text


def test_empty_batch_has_neither_rows_nor_chunk():
    piece = piece_of(1, 1, 1)
    located = piece.located()
    located[1].batch.count = 0
    piece.batches = lambda reading: iter(located)
    (chunk,) = _chunks(piece, DEFAULT_READING)
    assert [batch.position for batch in chunk.located] == [0, located[2].position]


def test_keys_and_values_of_arrow_batch_are_bounded(monkeypatch):
    monkeypatch.setattr(records, "ARROW_BYTES_MAX", 22)
    piece = piece_of(5, size=10)
    made = read_records([piece], ReadRequest(("offset",)))
    assert [batch.column(0).to_pylist() for batch in made] == [[0, 1], [2, 3], [4]]


def test_batch_columns_are_repeated_for_each_record():
    piece = piece_of(1, 2)
    columns = ("base_offset", "record_count", "uncompressed_bytes", "timestampType", "topic")
    (made,) = read_records([piece], ReadRequest(columns))
    rows = [
        dict(zip(columns, row, strict=True))
        for row in ((0, 1, len(built(0, 1)), 0, "t"), *[(1, 2, len(built(0, 2)), 0, "t")] * 2)
    ]
    assert made.to_pylist() == rows


def test_columns_of_large_batch_need_no_body(monkeypatch):
    monkeypatch.setattr(records, "LARGE_BYTES", 1)
    columns = ("offset", "record_count", "uncompressed_bytes")
    made = read_records([piece_of(2)], ReadRequest(columns))
    size = len(built(0, 2))
    assert [tuple(row.values()) for batch in made for row in batch.to_pylist()] == [
        (0, 2, size),
        (1, 2, size),
    ]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_record_may_be_as_large_as_limit(monkeypatch, beyond):
    """The error names its number in the batch."""
    data = [NewRecord(None, b"", 5), NewRecord(None, bytes(100), 5)]
    (located,) = Piece([build_batch(data)]).located()
    large = len(located.batch.buffer) - 61 - 7
    monkeypatch.setattr(bulk, "PIECE_BYTES", 7 + large - 1)
    found = bulk.decode_in_pieces(located.batch, large - 1 - beyond)
    if beyond <= 0:
        assert sum(map(len, found)) == 2
    else:
        with pytest.raises(bulk.RecordTooLarge, match=r"record 1 has more than"):
            list(found)
