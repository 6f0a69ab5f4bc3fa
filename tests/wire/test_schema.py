"""The effects of declarations, shown on small messages."""

import pickle

import pytest

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.codec.declarations import (
    EncodedArray,
    Struct,
    Versions,
    boolean,
    data,
    field,
    float64,
    int8,
    int16,
    int32,
    string,
    uint16,
    uint32,
    uuid,
)
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.records.consumer_groups import ConsumerGroupMemberMetadataValue
from trimaran.wire.schema import Message, encode_element, message


class Inner(Struct):
    number: int32
    name: string | None = None


class Point(Struct):
    x: int32 = -1


@message(key=900, versions="0-4", flexible="2+")
class Sample(Message):
    always: int16
    later: int32 = field("1+", default=7)
    dropped: string = field("1+", default="", ignorable=True)
    items: list[Inner]
    maybe: Inner | None = field("3+", default=None)
    words: list[string] | None = field("0+", default=None, nullable="1+")
    tagged: string = field("2+", default="d", tag=1)
    point: Point = field("3+", factory=Point, tag=0)
    newest: data = field("4+", default=b"", tag=5)


@message(versions="0")
class Numbers(Message):
    a: int8
    b: uint16
    c: uint32
    d: float64
    e: boolean


@message(versions="0")
class Ids(Message):
    one: uuid
    many: list[uuid]


@message(versions="0-1", flexible="1+")
class Nothing(Message):
    pass


def sample(**changes):
    return Sample(**{"always": 1, "items": [], "words": [], **changes})


def test_fields_exist_in_their_versions():
    assert Versions.parse("none") == (1, 0)
    assert 0 not in Versions.parse("none")
    assert Versions.parse("3") == (3, 3)
    assert Versions.parse("3-5") == (3, 5)
    assert 32767 in Versions.parse("3+")
    assert 2 not in Versions.parse("3+")


def test_required_fields_are_required():
    with pytest.raises(TypeError, match="always"):
        Sample(items=[])
    with pytest.raises(TypeError, match="unknown"):
        Sample(always=1, items=[], unknown=2)
    with pytest.raises(TypeError):
        Sample(1, [])


def test_default_structs_are_shared_and_refuse_assignment():
    one, two = sample(), sample()
    assert one.point is two.point
    with pytest.raises(AttributeError, match="messages share"):
        one.point.x = 5
    one.point = one.point.replace(x=5)
    assert (one.point.x, two.point.x) == (5, -1)
    assert one != two
    assert pickle.loads(pickle.dumps(two)).point is two.point
    assert two.point == Point() == one.point.replace(x=-1)


def test_struct_has_value_semantics():
    one = sample(items=[Inner(number=1)])
    assert not hasattr(one, "__dict__")
    assert one == sample(items=[Inner(number=1)])
    assert one != sample(items=[Inner(number=2)])
    assert one != 3
    assert "items=[Inner(number=1, name=None)]" in repr(one)
    assert one.replace(always=2) == sample(always=2, items=[Inner(number=1)])
    assert one.replace(always=2).items is one.items
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError):
        hash(one)


def test_old_version_has_fixed_layout():
    message = sample(items=[Inner(number=2, name="é"), Inner(number=3)], words=["x"])
    expected = (
        "0001" + "00000002" + "00000002" + "0002c3a9" + "00000003" + "ffff" + "00000001" + "000178"
    )
    assert message.encode(0).hex() == expected


def test_flexible_version_has_compact_layout():
    message = sample(always=-1, items=[Inner(number=2, name="é")], words=None, tagged="t")
    expected = (
        "ffff"
        + "00000007"
        + "01"
        + "02"
        + "00000002"
        + "03c3a9"
        + "00"
        + "00"
        + "01"
        + "01"
        + "02"
        + "0274"
    )
    assert message.encode(2).hex() == expected


def test_tags_ascend_and_defaults_are_not_sent():
    message = sample(tagged="t", point=Point(x=2), newest=b"n")
    text = message.encode(4).hex()
    assert text.endswith("03" + "0005" + "0000000200" + "0102" + "0274" + "0502" + "026e")
    assert sample().encode(4).hex().endswith("ff" + "01" + "00")


def test_nullable_struct_round_trips():
    assert Sample.decode(sample(maybe=Inner(number=9)).encode(3), 3).maybe == Inner(number=9)
    assert Sample.decode(sample().encode(3), 3).maybe is None


def test_absent_fields_must_have_their_default():
    with pytest.raises(LocalProtocolError, match=r"Sample\.later .* version 0"):
        sample(later=8).encode(0)
    with pytest.raises(LocalProtocolError, match=r"Sample\.point"):
        sample(point=Point(x=0)).encode(2)
    with pytest.raises(LocalProtocolError, match=r"Sample\.maybe"):
        sample(maybe=Inner(number=0)).encode(2)
    assert sample(dropped="quietly").encode(0) == sample().encode(0)


def test_absent_fields_have_their_default_after_decoding():
    decoded = Sample.decode(sample().encode(0), 0)
    assert (decoded.later, decoded.tagged, decoded.point, decoded.maybe) == (7, "d", Point(), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"always": 2**15},
        {"always": None},
        {"always": "x"},
        {"items": None},
        {"items": [Inner(number=1, name="\ud800")]},
        {"items": [3]},
        {"tagged": "x" * 2**15},
        {"words": [None]},
    ],
)
def test_value_out_of_range_is_refused(wrong):
    with pytest.raises(LocalProtocolError):
        sample(**wrong).encode(4)


def test_null_is_refused_unless_version_permits():
    assert Sample.decode(sample(words=None).encode(1), 1).words is None
    with pytest.raises(LocalProtocolError):
        sample(words=None).encode(0)
    body = sample(words=[]).encode(0)
    with pytest.raises(RemoteProtocolError, match=r"Sample\.words is null"):
        Sample.decode(body[:-4] + b"\xff" * 4, 0)


@pytest.mark.parametrize("version", [-1, 5])
def test_unknown_versions_are_refused(version):
    with pytest.raises(LocalProtocolError):
        sample().encode(version)
    with pytest.raises(RemoteProtocolError):
        Sample.decode(b"", version)


def test_numbers_have_their_layout():
    numbers = Numbers(a=-128, b=65535, c=2**32 - 1, d=-0.5, e=True)
    assert numbers.encode(0).hex() == "80" + "ffff" + "ffffffff" + "bfe0000000000000" + "01"
    assert Numbers.decode(numbers.encode(0), 0) == numbers


@pytest.mark.parametrize("wrong", [b"", b"x" * 15, b"x" * 17])
def test_uuid_has_16_bytes(wrong):
    with pytest.raises(LocalProtocolError):
        Ids(one=wrong, many=[]).encode(0)
    with pytest.raises(LocalProtocolError):
        Ids(one=bytes(16), many=[wrong]).encode(0)


def test_any_other_byte_is_true_as_in_kafka():
    body = Numbers(a=0, b=0, c=0, d=0.0, e=False).encode(0)
    assert Numbers.decode(body[:-1] + b"\x02", 0).e is True


def test_empty_message_round_trips():
    assert Nothing().encode(0) == b""
    assert Nothing().encode(1) == b"\0"
    assert Nothing.decode(b"", 0) == Nothing()


def test_decoded_prefix_leaves_the_rest():
    body = sample().encode(4)
    assert Sample.decode_prefix(body + b"more", 4) == (sample(), len(body))


def test_encoding_appends_to_the_buffer():
    out = Outgoing()
    out += b"before"
    sample().encode_into(out, 0)
    assert out == b"before" + sample().encode(0)


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_encoded_elements_take_the_place_of_structs(version):
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]
        )
        for index in range(200)
    ]
    topics = [
        MetadataResponseTopic(name="t", partitions=partitions),
        MetadataResponseTopic(name="u", partitions=[]),
    ]
    plain = MetadataResponse(brokers=[], topics=topics)

    def encoded(value):
        return encode_element(value, MetadataResponse, version)

    topics[0] = topics[0].replace(partitions=EncodedArray(map(encoded, partitions)))
    in_parts = MetadataResponse(brokers=[], topics=EncodedArray(map(encoded, topics)))
    topics[0] = topics[0].replace(partitions=partitions)
    assert in_parts.encode(version) == plain.encode(version)
    with pytest.raises(LocalProtocolError, match="MetadataResponsePartition"):
        encoded(partitions[0].replace(leader_id="one"))


def test_traceback_shows_generated_code():
    import linecache

    sample().encode(0)
    assert "(self.always, " in "".join(linecache.getlines("<write Sample v0>"))


def test_nullable_field_with_factory_accepts_none():
    from trimaran.wire.messages.offset_fetch import OffsetFetchRequest

    request = OffsetFetchRequest(group_id="g", topics=None)
    assert request.topics is None
    assert request.replace(require_stable=True).topics is None
    assert OffsetFetchRequest(group_id="g").topics == []


def test_tagged_null_structs_are_encoded_as_in_kafka():
    """Elsewhere null is an int8 -1, but in a tag it is an unsigned varint 0; and because the default is not null, null
    is written.
    """
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        server_assignor=None,
    )
    plain = "0000010101 00 ffffffff 00"
    assert member.encode(0) == bytes.fromhex(plain + "00")
    assert ConsumerGroupMemberMetadataValue.decode(member.encode(0), 0) == member
    modern = member.replace(classic_member_metadata=None)
    assert modern.encode(0) == bytes.fromhex(plain + "01 00 01 00")
    assert ConsumerGroupMemberMetadataValue.decode(modern.encode(0), 0) == modern
    with pytest.raises(AttributeError, match="share"):
        member.classic_member_metadata.supported_protocols.append(None)
