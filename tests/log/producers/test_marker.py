"""Transaction markers: the exact control batch, and batches that are not read as markers."""

from __future__ import annotations

import struct

import pytest

from tests.log.helpers import batch_bytes, view_of
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.producers.marker import EndMarker, build_end_marker, read_end_marker
from trimaran.wire.messages.control import ControlType, encode_control_key

COMMIT_KEY, ABORT_KEY = b"\0\0\0\1", b"\0\0\0\0"
FIELDS = {"producer_id": 7, "producer_epoch": 3, "timestamp_ms": 99}


@pytest.mark.parametrize("coordinator_epoch", [-1, 0, 5, 2**31 - 1])
@pytest.mark.parametrize(("is_commit", "key"), [(True, COMMIT_KEY), (False, ABORT_KEY)])
def test_marker_is_kafkas_control_batch(is_commit, key, coordinator_epoch):
    marker = EndMarker(is_commit, coordinator_epoch)
    batch = view_of(build_end_marker(marker, **FIELDS))
    assert (batch.is_control, batch.is_transactional, batch.count) == (True, True, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.max_timestamp) == (7, 3, 99)
    assert batch.base_sequence == -1
    [record] = decode_records(batch, 1000)
    assert (record.key, record.value) == (key, struct.pack(">hi", 0, coordinator_epoch))
    assert (record.timestamp_ms, record.offset) == (99, 0)
    assert read_end_marker(batch) == marker


def control(*records):
    return view_of(
        bytearray(build_batch([NewRecord(*record, 9) for record in records], is_control=True))
    )


VALUE = struct.pack(">hi", 0, 5)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([(COMMIT_KEY, VALUE)], EndMarker(True, 5)),
        ([(COMMIT_KEY, VALUE + b"of a later version")], EndMarker(True, 5)),
        ([(COMMIT_KEY, VALUE[:-1])], None),
        ([(COMMIT_KEY, None)], None),
        ([(None, VALUE)], None),
        ([(COMMIT_KEY[:-1], VALUE)], None),
        ([(encode_control_key(ControlType.LEADER_CHANGE), VALUE)], None),
        ([(b"\0\0\0\x63", VALUE)], None),
        ([(COMMIT_KEY, VALUE), (COMMIT_KEY, VALUE)], None),
    ],
)
def test_other_control_records_are_no_markers(records, expected):
    assert read_end_marker(control(*records)) == expected


def test_incomplete_marker_batch_is_not_read():
    data = build_end_marker(EndMarker(True, 5), **FIELDS)
    assert read_end_marker(view_of(data)) is not None
    header = view_of(data)
    header.buffer = memoryview(data)[:61]
    assert read_end_marker(header) is None
    assert read_end_marker(view_of(batch_bytes(1))) is None
