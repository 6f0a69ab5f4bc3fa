import pytest

from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from trimaran.wire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC = TopicRecord(name="t", topic_id=b"0123456789abcdef")


def test_every_record_type_of_kafka_is_declared():
    # 6, 13 and 16 were never released or no longer exist.
    assert sorted(METADATA_RECORDS) == [k for k in range(30) if k not in (6, 13, 16)]


def test_record_frame_round_trips():
    assert (
        encode_metadata_record(TOPIC, 0).hex()
        == "010200" + "0274" + b"0123456789abcdef".hex() + "00"
    )
    assert decode_metadata_record(encode_metadata_record(TOPIC, 0)) == TOPIC
    assert (
        decode_metadata_record(memoryview(encode_metadata_record(NoOpRecord(), 0))) == NoOpRecord()
    )


def test_frame_of_overlong_varints_is_read():
    body = encode_metadata_record(TOPIC, 0)[3:]
    assert decode_metadata_record(b"\x81\x00\x82\x00\x80\x00" + body) == TOPIC


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0\2\0\2t" + bytes(17),  # frame version of the preview release
        b"\2\2\0\2t" + bytes(17),
        b"\1\6\0\0",  # no such type
        b"\1\2\1\2t" + bytes(17),  # no such version
        b"\1\2\0\2t" + bytes(16),
        b"\1\2\0\2t" + bytes(18),
        b"\1\x80\x80\x80\x80\x80\x00\0",
    ],
)
def test_malformed_record_is_refused(value):
    with pytest.raises(RemoteProtocolError):
        decode_metadata_record(value)


@pytest.mark.parametrize(
    ("cls", "metadata_version", "version"),
    [
        (RegisterBrokerRecord, 7, 1),
        (RegisterBrokerRecord, 8, 2),
        (RegisterBrokerRecord, 16, 2),
        (RegisterBrokerRecord, 17, 3),
        (RegisterBrokerRecord, 30, 4),
        (PartitionRecord, 16, 0),
        (PartitionRecord, 17, 1),
        (PartitionRecord, 22, 1),
        (PartitionRecord, 23, 2),
        (PartitionChangeRecord, 7, 0),
        (PartitionChangeRecord, 23, 2),
        (BrokerRegistrationChangeRecord, 30, 3),
        (TopicRecord, 30, 0),
    ],
)
def test_metadata_level_determines_record_version(cls, metadata_version, version):
    assert metadata_record_version(cls, metadata_version) == version


@pytest.mark.parametrize("cls", METADATA_RECORDS.values(), ids=lambda cls: cls.__name__)
def test_newest_metadata_level_uses_newest_version(cls):
    assert metadata_record_version(cls, 30) == cls.VERSIONS.high


def test_field_beyond_metadata_level_is_refused():
    record = PartitionChangeRecord(partition_id=0, topic_id=bytes(16), eligible_leader_replicas=[1])
    with pytest.raises(LocalProtocolError):
        encode_metadata_record(record, metadata_record_version(PartitionChangeRecord, 17))
