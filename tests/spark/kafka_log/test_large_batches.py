"""Batches that expand beyond memory: every record is returned in chunks, or an error is raised."""

import random

import cramjam
import pytest

from tests.spark.directories import CODECS, checkpoint, make_node, write_partition
from tests.spark.kafka_log.test_reading import read, rows_of
from trimaran.log.batches.batch import HEADER_BYTES, BatchView
from trimaran.log.batches.columns import MalformedRecords
from trimaran.log.batches.records import NewRecord, build_batch, decode_records, records_bytes
from trimaran.log.codecs import snappy
from trimaran.log.codecs.compression import Compression
from trimaran.log.codecs.output import TooManyParts
from trimaran.spark.kafka_log import bulk, records
from trimaran.spark.kafka_log.bulk import RecordTooLarge, decode_in_pieces, gather
from trimaran.spark.origins.origin import BATCH_BYTES_MAX, DataUnreadable
from trimaran.wire.errors import RemoteProtocolError


def some_records(count, size=300):
    chance = random.Random(count)
    return [
        NewRecord(
            None if i % 5 == 0 else b"key-%d" % i,
            None if i % 7 == 0 else chance.randbytes(chance.randrange(size)) * 2,
            1000 + i,
            [("h", b"x")] * (i % 3),
        )
        for i in range(count)
    ]


def batch_of(rows, codec=Compression.LZ4, **told):
    data = build_batch(rows, base_offset=70, leader_epoch=0, compression=codec, **told)
    return BatchView(memoryview(bytearray(data)))


def cells(some):
    keys, values = gather(some.data, some.key), gather(some.data, some.value)
    return list(
        zip(some.offset, some.timestamp_ms, keys.to_pylist(), values.to_pylist(), strict=True)
    )


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("piece_bytes", [40_000, 100_000])
def test_pieces_hold_what_the_plain_decoder_finds(codec, piece_bytes, monkeypatch):
    monkeypatch.setattr(bulk, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(bulk, "RECORDS_MAX", 97)
    batch = batch_of(some_records(1500), codec)
    pieces = list(decode_in_pieces(batch, BATCH_BYTES_MAX))
    assert len(pieces) > 10
    wanted = [(r.offset, r.timestamp_ms, r.key, r.value) for r in decode_records(batch)]
    assert [cell for piece in pieces for cell in cells(piece)] == wanted


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 61])
def test_pieces_may_end_anywhere(piece_bytes, monkeypatch):
    monkeypatch.setattr(bulk, "PIECE_BYTES", piece_bytes)
    batch = batch_of(some_records(30), Compression.NONE)
    found = [cell for piece in decode_in_pieces(batch, BATCH_BYTES_MAX) for cell in cells(piece)]
    assert found == [(r.offset, r.timestamp_ms, r.key, r.value) for r in decode_records(batch)]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_reader_reads_large_batch_in_pieces(codec, tmp_path, monkeypatch):
    """The large batch is between small ones, and the range starts and ends inside it."""
    rows = some_records(400)
    offset, batches = 0, []
    for part in (rows[:10], rows, rows[:10]):
        built = build_batch(part, base_offset=offset, leader_epoch=0, compression=codec)
        batches.append(built)
        offset += len(part)
    node = make_node(tmp_path, 11)
    write_partition(node, "t", 0, batches)
    checkpoint(node, {("t", 0): offset})
    plain = rows_of(read(tmp_path))
    assert len(plain) == offset
    monkeypatch.setattr(records, "LARGE_BYTES", 20_000)
    monkeypatch.setattr(bulk, "PIECE_BYTES", 33_000)
    assert rows_of(read(tmp_path)) == plain
    some = {"startingOffsets": '{"t": {"0": 50}}', "endingOffsets": '{"t": {"0": 333}}'}
    assert rows_of(read(tmp_path, **some)) == plain[50:333]


def test_many_snappy_blocks_are_decoded():
    """A gigabyte of snappy has this many blocks; here they are small."""
    plain = batch_of(some_records(1500), Compression.NONE)
    header, body = bytes(plain.buffer)[:HEADER_BYTES], bytes(plain.buffer)[HEADER_BYTES:]
    packed = bytearray(snappy.XERIAL_HEADER.pack(snappy.XERIAL_MAGIC, 1, 1))
    for start in range(0, len(body), 40):
        block = cramjam.snappy.compress_raw(body[start : start + 40])
        packed += len(block).to_bytes(4, "big") + bytes(block)
    attributes = int(Compression.SNAPPY).to_bytes(2, "big")
    batch = BatchView(memoryview(header[:21] + attributes + header[23:] + packed))
    with pytest.raises(TooManyParts):
        records_bytes(batch)
    found = [cell for piece in decode_in_pieces(batch, BATCH_BYTES_MAX) for cell in cells(piece)]
    assert found == [(r.offset, r.timestamp_ms, r.key, r.value) for r in decode_records(plain)]


def test_too_large_record_is_refused():
    batch = batch_of([NewRecord(None, b"a", 0), NewRecord(None, bytes(30 << 20), 0)])
    with pytest.raises(
        RecordTooLarge, match=r"record 1 has more than 9,000,000 bytes; raise maxBat"
    ):
        list(decode_in_pieces(batch, 9_000_000))


@pytest.mark.parametrize("codec", [c for c in CODECS if c], ids=lambda codec: codec.name)
def test_truncated_batch_is_refused(codec, monkeypatch):
    monkeypatch.setattr(bulk, "PIECE_BYTES", 40_000)
    batch = batch_of(some_records(1500), codec)
    cut = BatchView(memoryview(bytes(batch.buffer)[: batch.size // 2]))
    with pytest.raises(RemoteProtocolError):
        list(decode_in_pieces(cut, BATCH_BYTES_MAX))


def test_wrong_record_count_is_refused():
    rows = some_records(300)
    batch = batch_of(rows, Compression.NONE)
    data = bytearray(batch.buffer)
    data[57:61] = (301).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="1 of its 301 records are not there"):
        list(decode_in_pieces(BatchView(memoryview(data)), BATCH_BYTES_MAX))
    data[57:61] = (299).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="bytes are left behind record 298"):
        list(decode_in_pieces(BatchView(memoryview(data)), BATCH_BYTES_MAX))
    data[57:61] = (300).to_bytes(4, "big")
    data[61:63] = b"\x03\x00"  # a negative length
    with pytest.raises(MalformedRecords):
        list(decode_in_pieces(BatchView(memoryview(data)), BATCH_BYTES_MAX))


def stored(tmp_path, large_bytes):
    """Writes three uncompressed batches, the middle one of `large_bytes`."""
    parts = ([b"a"], [bytes(large_bytes)], [b"b"])
    batches = [
        build_batch([NewRecord(None, v, 1) for v in part], base_offset=i, leader_epoch=0)
        for i, part in enumerate(parts)
    ]
    node = make_node(tmp_path, 11)
    write_partition(node, "t", 0, batches, segment_bytes=1 << 20)
    checkpoint(node, {("t", 0): 3})


def test_batch_stored_too_large_is_named(tmp_path):
    stored(tmp_path, 200_000)
    assert len(read(tmp_path)) == 3
    limit = {"maxBatchBytes": "100000"}
    words = r"t-0/0+\.log: the batch at position 69, offsets 1 to 1, has 200,0\d\d bytes, more than maxBatchBytes"
    with pytest.raises(DataUnreadable, match=words):
        read(tmp_path, **limit)
    found = read(tmp_path, failOnDataLoss="false", **limit)
    assert [row["offset"] for row in found] == [0, 2]
