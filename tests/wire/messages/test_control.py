import pytest

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.control import (
    ControlType,
    EndTxnMarker,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)


@pytest.mark.parametrize("control_type", [t for t in ControlType if t is not ControlType.UNKNOWN])
def test_control_key_round_trips(control_type):
    key = encode_control_key(control_type)
    assert len(key) == 4
    assert decode_control_key(key) is control_type


def test_key_of_later_kafka_is_read():
    assert decode_control_key(b"\0\0\0\x63") is ControlType.UNKNOWN
    assert decode_control_key(b"\0\x07\0\1more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_malformed_key_is_refused(key):
    with pytest.raises(RemoteProtocolError):
        decode_control_key(key)


@pytest.mark.parametrize(
    ("control_type", "value", "version"),
    [
        (ControlType.COMMIT, EndTxnMarker(coordinator_epoch=3), 0),
        (ControlType.ABORT, EndTxnMarker(coordinator_epoch=-1), 0),
        (
            ControlType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(version=0, last_contained_log_timestamp=5),
            0,
        ),
        (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0), 0),
        (
            ControlType.LEADER_CHANGE,
            LeaderChangeMessage(
                version=1,
                leader_id=2,
                voters=[LeaderChangeMessageVoter(voter_id=2, voter_directory_id=b"d" * 16)],
                granting_voters=[],
            ),
            1,
        ),
    ],
)
def test_control_value_round_trips(control_type, value, version):
    encoded = encode_control_value(value, version)
    assert decode_control_value(control_type, encoded) == value
    assert decode_control_value(control_type, memoryview(encoded)) == value


def test_end_marker_has_kafkas_bytes():
    assert encode_control_value(EndTxnMarker(coordinator_epoch=7), 0).hex() == "000000000007"


def test_value_of_later_version_is_decoded():
    assert decode_control_value(ControlType.COMMIT, b"\0\x09\0\0\0\1").coordinator_epoch == 1


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\0\0"])
def test_malformed_value_is_refused(value):
    with pytest.raises(RemoteProtocolError):
        decode_control_value(ControlType.COMMIT, value)


def test_unknown_type_has_no_value():
    with pytest.raises(RemoteProtocolError):
        decode_control_value(ControlType.UNKNOWN, b"\0\0")
