"""The complete row of a batch, and each column at its bounds, without a file."""

import datetime as dt

import pytest

from tests.spark.directories import control_batch
from tests.spark.kafka_log.pieces import Piece
from trimaran.log.batches.batch import HEADER_BYTES
from trimaran.log.batches.records import NewRecord, Record, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log import batches as module
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS, BatchRow, read_batches
from trimaran.spark.origins.origin import DataUnreadable, Reading
from trimaran.wire.messages.control import ControlType, encode_control_key

COLUMNS = tuple(BATCH_COLUMNS)


def rows_of(*pieces, columns=COLUMNS, **reading):
    made = list(read_batches(pieces, ReadRequest(columns, Reading(**reading))))
    assert all(batch.schema.names == list(columns) for batch in made)
    return [row for batch in made for row in batch.to_pylist()]


def moment(ms):
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def built(offset, *times, **fields):
    records = [NewRecord(b"k", b"v" * 50, time) for time in times]
    return build_batch(records, base_offset=offset, leader_epoch=4, **fields)


def test_batch_row_has_values_of_its_header():
    plain = built(5, 1000, 3000)
    data = built(
        9,
        2000,
        compression=Compression.GZIP,
        producer_id=8,
        producer_epoch=2,
        base_sequence=6,
        is_transactional=True,
    )
    first, second = rows_of(Piece([plain, data]))
    assert second == {
        "topic": "t",
        "partition": 3,
        "broker_id": 7,
        "base_offset": 9,
        "last_offset": 9,
        "record_count": 1,
        "batch_bytes": len(data),
        "compression": "gzip",
        "base_timestamp": moment(2000),
        "max_timestamp": moment(2000),
        "timestampType": 0,
        "leader_epoch": 4,
        "producer_id": 8,
        "producer_epoch": 2,
        "base_sequence": 6,
        "is_transactional": True,
        "is_control": False,
        "control_type": None,
        "delete_horizon_ms": None,
        "crc": int.from_bytes(data[17:21], "big"),
        "crc_valid": True,
        "file": "file:/d/t-3/0.log",
        "position": len(plain),
        "log_dir": "/d",
        "uncompressed_bytes": len(built(9, 2000)),
        "log_start_offset": 0,
        "cleaner_offset": None,
    }
    assert (first["position"], first["record_count"], first["last_offset"]) == (0, 2, 6)
    assert (first["base_timestamp"], first["max_timestamp"]) == (moment(1000), moment(3000))
    assert (first["producer_id"], first["is_transactional"]) == (-1, False)
    assert first["uncompressed_bytes"] == len(plain)


@pytest.mark.parametrize(("node_id", "broker_id"), [(-1, None), (0, 0), (1, 1)])
def test_broker_is_named_by_its_id(node_id, broker_id):
    (row,) = rows_of(Piece([built(0, 1)], node_id=node_id), columns=("broker_id",))
    assert row == {"broker_id": broker_id}


@pytest.mark.parametrize(("position", "told"), [(-1, None), (0, 0), (1, 1)])
def test_batch_sent_by_broker_has_no_position(position, told):
    piece = Piece([built(0, 1)])
    (located,) = piece.located()
    row = BatchRow(piece, located._replace(position=position))
    assert BATCH_COLUMNS["position"].value(row) == told


@pytest.mark.parametrize(
    ("of_range", "of_batch", "count"),
    [
        (0, 0, 3),
        (5, 0, 3),
        (6, 0, 2),
        (7, 6, 1),
        (6, 7, 1),
        (0, 7, 1),
        (8, 0, 0),
        (0, 5, 3),
    ],
)
def test_records_below_log_start_are_not_counted(of_range, of_batch, count):
    """The log start counts as it was when the range was planned or when the batch was read, whichever is later."""
    for data in (
        built(5, 1, 2, 3),
        built(5, 1, 2, 3, compression=Compression.SNAPPY),
    ):
        piece = Piece([data], log_start=of_range, log_starts=[of_batch])
        assert rows_of(piece, columns=("record_count",)) == [{"record_count": count}]


@pytest.mark.parametrize("log_start", [0, 4, 5])
def test_header_counts_records_if_none_is_below_start(log_start):
    """The header is the fast way to count, and also counts records that cannot be decompressed."""
    data = bytearray(built(5, 1, 2, compression=Compression.GZIP))
    data[HEADER_BYTES : HEADER_BYTES + 4] = b"none"
    piece = Piece([bytes(data)], log_start=log_start)
    assert rows_of(piece, columns=("record_count",)) == [{"record_count": 2}]


def test_decompressed_bodies_are_not_decompressed_again():
    piece = Piece([built(0, 1, compression=Compression.GZIP)])
    (located,) = piece.located()
    uncompressed = BATCH_COLUMNS["uncompressed_bytes"].value
    assert uncompressed(BatchRow(piece, located, b"")) == HEADER_BYTES
    assert uncompressed(BatchRow(piece, located, bytes(9))) == HEADER_BYTES + 9
    located.batch.count = 0
    located.batch.buffer = located.batch.buffer[:HEADER_BYTES]
    assert uncompressed(BatchRow(piece, located)) == HEADER_BYTES


def control(*keys):
    return build_batch([NewRecord(key, bytes(6), 5) for key in keys], is_control=True)


ABORT, COMMIT = encode_control_key(ControlType.ABORT), encode_control_key(ControlType.COMMIT)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (built(0, 1), None),
        (control_batch(0), "COMMIT"),
        (control(ABORT), "ABORT"),
        (control(ABORT, COMMIT), "ABORT"),
        (control(encode_control_key(ControlType.LEADER_CHANGE)), "LEADER_CHANGE"),
    ],
)
def test_control_batch_has_type_of_first_record(data, kind):
    columns = ("is_control", "control_type")
    expected = {"is_control": kind is not None, "control_type": kind}
    assert rows_of(Piece([data]), columns=columns) == [expected]


def test_control_batch_without_record_has_no_type():
    piece = Piece([control(ABORT)])
    (located,) = piece.located()
    located.batch.count = 0
    assert BATCH_COLUMNS["control_type"].value(BatchRow(piece, located)) is None


def test_control_record_without_key_is_data_loss(caplog):
    piece = Piece([control(None), built(1, 5)])
    columns = ("base_offset", "control_type")
    with pytest.raises(DataUnreadable, match=r"file:/d/t-3/0.log, offset 0: "):
        rows_of(piece, columns=columns)
    found = rows_of(piece, columns=columns, fail_on_data_loss=False)
    assert found == [{"base_offset": 1, "control_type": None}]
    assert "offset 0: " in caplog.text


def test_batch_belongs_to_range_of_last_offset():
    data = [built(0, 1), built(1, 1, 2, 3), built(4, 1)]
    ends = {
        end: [row["base_offset"] for row in rows_of(Piece(data, end_offset=end))]
        for end in (0, 1, 3, 4, 5)
    }
    assert ends == {0: [], 1: [0], 3: [0], 4: [0, 1], 5: [0, 1, 4]}


def test_arrow_batch_holds_5000_rows_of_one_range(monkeypatch):
    assert module.CHUNK_BATCHES == 5000
    monkeypatch.setattr(module, "CHUNK_BATCHES", 2)
    pieces = [Piece([built(number, 1) for number in range(count)]) for count in (3, 0, 2, 1)]
    made = list(read_batches(pieces, ReadRequest(("base_offset",))))
    assert [batch.column(0).to_pylist() for batch in made] == [[0, 1], [2], [0, 1], [0]]


def test_old_message_is_a_row():
    records = [Record(n, 1000 + n, b"k", b"v", ()) for n in range(2)]
    data = bytes(build_message_set(records, magic=1, compression=Compression.GZIP))
    columns = ("record_count", "timestampType", "compression")
    assert rows_of(Piece([data]), columns=columns) == [
        {"record_count": 2, "timestampType": 0, "compression": "gzip"}
    ]
