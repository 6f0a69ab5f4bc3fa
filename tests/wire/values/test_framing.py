"""Ids of schemas in values and headers: the ids of each serializer are read, other bytes are refused."""

from __future__ import annotations

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.values.failures import UndecodedValue, UnencodedValue
from trimaran.wire.values.framing import (
    MESSAGE_INDEXES_MAX,
    IdKind,
    SchemaId,
    framed,
    message_indexes,
    type_reference,
    unframe,
)

IDS = st.integers(1, 2**31 - 1)


def zigzags(numbers):
    out = bytearray()
    for number in numbers:
        write_uvarint(out, number << 1 if number >= 0 else (-number << 1) - 1)
    return bytes(out)


@given(IDS, st.binary())
def test_id_of_confluent_is_read(number, payload):
    found = unframe(struct.pack(">bI", 0, number) + payload)
    assert found.schema_id == SchemaId(IdKind.SHORT, number)
    assert bytes(found.payload) == payload
    assert found.type_prefix is None


@given(IDS, st.binary())
def test_eight_byte_id_of_apicurio_is_read(number, payload):
    found = unframe(struct.pack(">bq", 0, number) + payload)
    assert (found.schema_id, bytes(found.payload)) == (SchemaId(IdKind.LONG, number), payload)


@given(st.uuids(), st.binary())
def test_guid_in_the_value_is_read(guid, payload):
    found = unframe(b"\x01" + guid.bytes + payload)
    assert found.schema_id == SchemaId(IdKind.GUID, guid.int)
    assert found.schema_id.path == str(guid)
    assert bytes(found.payload) == payload


@pytest.mark.parametrize("number", [1, 255, 256, 2**24, 2**31 - 1])
@pytest.mark.parametrize("size", [0, 3, 4, 5, 20])
def test_length_of_an_id_follows_from_its_bytes(number, size):
    payload = b"\xff" * size
    short = unframe(struct.pack(">bI", 0, number) + payload)
    assert (short.schema_id, bytes(short.payload)) == (SchemaId(IdKind.SHORT, number), payload)
    long = unframe(struct.pack(">bq", 0, number) + payload)
    assert (long.schema_id, bytes(long.payload)) == (SchemaId(IdKind.LONG, number), payload)
    for zeros in (5, 8):
        found = unframe(bytes(zeros))
        assert (found.schema_id, bytes(found.payload)) == (
            SchemaId(IdKind.SHORT, 0),
            bytes(zeros - 5),
        )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", r"the value does not begin .* \(0 bytes: no bytes\)"),
        (b"\0\0\0\7", r"\(4 bytes: 00 00 00 07\)"),
        (b"\2" * 30, r"\(30 bytes: 02 02 02 02 02 02 02 02\)"),
    ],
)
def test_first_bytes_of_other_values_are_shown(value, told):
    with pytest.raises(UndecodedValue, match=told):
        unframe(value)
    with pytest.raises(UndecodedValue, match="the header __key_schema_id does not begin"):
        unframe(b"", [("__key_schema_id", value)], is_key=True)


def test_header_of_confluent_precedes_the_value():
    guid = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
    headers = [("a", None), ("__value_schema_id", b"\x01" + guid.bytes + zigzags([2, 1, 0]))]
    found = unframe(b"\x00\x00\x00\x00\x07x", headers)
    assert found.schema_id.path == str(guid)
    assert bytes(found.payload) == b"\x00\x00\x00\x00\x07x"
    assert found.type_prefix is not None
    assert message_indexes(found.type_prefix)[0] == [1, 0]
    assert unframe(b"\x00\x00\x00\x00\x07x", headers, is_key=True).schema_id.number == 7


@pytest.mark.parametrize("kind", [IdKind.GLOBAL, IdKind.CONTENT])
def test_headers_of_apicurio_are_read(kind):
    headers = [
        (f"apicurio.key.{kind.value}", struct.pack(">q", 9)),
        ("apicurio.protobuf.type.key", b"A.B"),
    ]
    found = unframe(b"payload", headers, is_key=True)
    assert (found.schema_id, found.type_name) == (SchemaId(kind, 9), "A.B")
    assert bytes(found.payload) == b"payload"
    with pytest.raises(UndecodedValue, match="has 1 bytes, and an id has 8"):
        unframe(b"", [("apicurio.value.globalId", b"x")])


@pytest.mark.parametrize(
    "value", [b"", b"\x00\x00\x00\x07", b'{"a": 1}', b"\x01" * 16, b"\x02" * 30]
)
def test_value_without_id_is_refused(value):
    with pytest.raises(UndecodedValue, match="does not begin with the id of a schema"):
        unframe(value)


@given(st.lists(st.integers(0, 2**31 - 1), max_size=MESSAGE_INDEXES_MAX), st.binary())
def test_message_indexes_are_read(indexes, payload):
    found, rest = message_indexes(memoryview(zigzags([len(indexes), *indexes]) + payload))
    assert (found, bytes(rest)) == (indexes or [0], payload)


@pytest.mark.parametrize("index", [63, 64, 127, 128, 2**14 - 1, 2**14])
def test_index_of_several_bytes_is_read(index):
    found, rest = message_indexes(memoryview(zigzags([1, index]) + b"\x07"))
    assert (found, bytes(rest)) == ([index], b"\x07")


@pytest.mark.parametrize("count", [-1, MESSAGE_INDEXES_MAX + 1])
def test_other_counts_of_indexes_are_refused(count):
    with pytest.raises(UndecodedValue, match=f"{count} message indexes, and at most"):
        message_indexes(memoryview(zigzags([count]) + b"\x02" * (MESSAGE_INDEXES_MAX + 1)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 10 + b"\x01"])
def test_endless_numbers_are_refused(data):
    for read in (message_indexes, type_reference):
        with pytest.raises(UndecodedValue, match="ends, or is malformed"):
            read(memoryview(data))


@given(IDS, st.lists(st.integers(0, 200), max_size=4), st.binary())
def test_framed_value_is_read_back(number, indexes, payload):
    found = unframe(framed(SchemaId(IdKind.SHORT, number), payload, indexes))
    assert found.schema_id == SchemaId(IdKind.SHORT, number)
    if not indexes:
        assert bytes(found.payload) == payload
    else:
        path, rest = message_indexes(found.payload)
        assert (path, bytes(rest)) == (indexes, payload)


def test_path_of_first_message_is_one_zero():
    assert framed(SchemaId(IdKind.SHORT, 7), b"x", [0]) == b"\0\0\0\0\7\0x"
    assert framed(SchemaId(IdKind.SHORT, 7), b"x", [1]) == b"\0\0\0\0\7\2\2x"
    assert framed(SchemaId(IdKind.SHORT, 7), b"x", [0, 0]) == b"\0\0\0\0\7\4\0\0x"


@pytest.mark.parametrize("kind", [kind for kind in IdKind if kind is not IdKind.SHORT])
def test_ids_of_other_registries_are_not_written(kind):
    with pytest.raises(UnencodedValue, match="are not written"):
        framed(SchemaId(kind, 7), b"x")


@given(st.text(max_size=300), st.binary())
def test_type_reference_of_apicurio_is_read(name, payload):
    inner = bytearray(b"\x0a")
    write_uvarint(inner, len(name.encode()))
    inner += name.encode()
    framed = bytearray()
    write_uvarint(framed, len(inner))
    found, rest = type_reference(memoryview(bytes(framed + inner + payload)))
    assert (found, bytes(rest)) == (name, payload)
    assert type_reference(memoryview(b"\x00" + payload))[0] == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x03\x0a\x01", "a type reference of 3 bytes in a value with 2 more"),
        (b"\x03\x0a\x02A", "no type reference"),
        (b"\x04\x0a\x01AB", "no type reference"),
        (b"\x03\x12\x01A", "no type reference"),
    ],
)
def test_other_type_references_are_refused(data, message):
    with pytest.raises(UndecodedValue, match=message):
        type_reference(memoryview(data))


@pytest.mark.parametrize("read", [unframe, message_indexes, type_reference])
@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(read, data):
    assert_only_raises(UndecodedValue, lambda: read(memoryview(data)))
