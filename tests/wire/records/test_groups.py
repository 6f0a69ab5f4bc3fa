import pytest

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
    group_key_type,
)

CLASSES = {cls.KEY: cls for cls in (OffsetCommitKey, GroupMetadataKey)}
OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=3)
OFFSET = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=2,
    protocol="range",
    leader="m",
    members=[
        MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout=10,
            subscription=b"s",
            assignment=b"a",
        )
    ],
)


def test_keys_round_trip():
    assert encode_group_key(OFFSET_KEY).hex() == "0001" + "000167" + "000174" + "00000003"
    assert encode_group_key(GroupMetadataKey(group="g")).hex() == "0002" + "000167"
    for key in (OFFSET_KEY, GroupMetadataKey(group="g")):
        assert decode_group_key(memoryview(encode_group_key(key)), CLASSES) == key


def test_key_of_other_type_is_unknown():
    assert decode_group_key(b"\0\3\0\1g", CLASSES) is None
    assert group_key_type(b"\0\3\0\1g") == 3


@pytest.mark.parametrize("version", range(5))
def test_values_round_trip(version):
    assert decode_group_value(encode_group_value(OFFSET, version), OffsetCommitValue) == OFFSET
    assert decode_group_value(encode_group_value(GROUP, version), GroupMetadataValue) == GROUP


def test_topic_id_is_dropped_before_version_4():
    value = OFFSET.replace(topic_id=b"i" * 16)
    assert decode_group_value(encode_group_value(value, 4), OffsetCommitValue) == value
    assert decode_group_value(encode_group_value(value, 3), OffsetCommitValue) == OFFSET


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1", b"\0\1\0\5g", b"\0\2\0\1g?"])
def test_malformed_key_is_refused(data):
    with pytest.raises(RemoteProtocolError):
        decode_group_key(data, CLASSES)


@pytest.mark.parametrize("data", [b"", b"\0\x09" + bytes(30), b"\xff\xff" + bytes(30), b"\0\1"])
def test_malformed_value_is_refused(data):
    for cls in (OffsetCommitValue, GroupMetadataValue):
        with pytest.raises(RemoteProtocolError):
            decode_group_value(data, cls)
