"""Control batches: bytes written by hand, a round trip of every type, and damaged ones or ones of a later Kafka."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.control_records import (
    CONTROL_BATCH_BYTES_MAX,
    build_control_batch,
    read_control_records,
)
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.control import (
    ControlType,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

LEADER = LeaderChangeMessage(
    version=0,
    leader_id=1,
    voters=[LeaderChangeMessageVoter(voter_id=2)],
    granting_voters=[LeaderChangeMessageVoter(voter_id=1)],
)
VALUES = [
    (ControlType.LEADER_CHANGE, LEADER),
    (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0, last_contained_log_timestamp=9)),
    (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
    (ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=[])),
    (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0)),
]


def batch_of(*records, **fields):
    new = [NewRecord(key, value, 5) for key, value in records]
    return BatchView(build_batch(new, is_control=True, **fields))


def test_every_raft_record_type_round_trips():
    batch = BatchView(build_control_batch(VALUES, timestamp_ms=5, base_offset=7, leader_epoch=3))
    assert (batch.is_control, batch.leader_epoch) == (True, 3)
    found = read_control_records(batch)
    assert [(record.type, record.value) for record in found] == VALUES
    assert [(record.offset, record.timestamp_ms) for record in found] == [
        (7 + i, 5) for i in range(5)
    ]


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_marker_round_trips(is_commit):
    marker = build_end_marker(
        EndMarker(is_commit, 4), producer_id=1, producer_epoch=0, timestamp_ms=5
    )
    [found] = read_control_records(BatchView(marker))
    assert found.type is (ControlType.COMMIT if is_commit else ControlType.ABORT)
    assert found.value == EndTxnMarker(coordinator_epoch=4)


def test_handwritten_control_records_are_read():
    leader = bytes.fromhex("0000 00000001 02 00000002 00 02 00000001 00 00")
    kraft_version = bytes.fromhex("0000 0001 00")
    batch = batch_of((b"\0\0\0\2", leader), (b"\0\0\0\5", kraft_version))
    assert [read_control_record.value for read_control_record in read_control_records(batch)] == [
        LEADER,
        VALUES[2][1],
    ]


def test_versions_of_later_kafka_are_skipped():
    batch = batch_of((b"\0\0\0\x63", b"whatever"))
    assert [
        (read_control_record.type, read_control_record.value)
        for read_control_record in read_control_records(batch)
    ] == [(ControlType.UNKNOWN, None)]


@pytest.mark.parametrize(
    "batch",
    [
        BatchView(build_batch([NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\1", 5)])),
        batch_of((None, b"\0\0\0\0\0\1")),
        batch_of((b"\0\0\0", b"\0\0\0\0\0\1")),
        batch_of((b"\xff\xff\0\1", b"\0\0\0\0\0\1")),
        batch_of((b"\0\0\0\1", None)),
        batch_of((b"\0\0\0\1", b"\0\0\0\0")),
        batch_of((b"\0\0\0\2", b"\0\0\0\0\0\1\x7f")),
        batch_of((b"\0\0\0\1", bytes(CONTROL_BATCH_BYTES_MAX + 1)), compression=Compression.GZIP),
    ],
)
def test_damage_is_a_protocol_error(batch):
    with pytest.raises(RemoteProtocolError):
        read_control_records(batch)


@given(st.integers(-1, 8), st.binary(max_size=60), st.integers(0, 7))
def test_any_bytes_raise_only_expected_errors(kind, value, codec):
    batch = batch_of((struct.pack(">hh", 0, kind), value))
    batch.attributes |= codec
    assert_only_raises(RemoteProtocolError, lambda: read_control_records(batch))
