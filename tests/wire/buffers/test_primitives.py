import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.buffers.primitives import (
    NIL_UUID,
    UVARINTS,
    VARINTS,
    read_uvarint,
    read_varint,
    read_varlong,
    uuid_from_text,
    uuid_to_text,
    write_uvarint,
)
from trimaran.wire.errors import RemoteProtocolError


def write_from(varints):
    """Returns a writer that reads the bytes from a table."""
    return lambda out, value: out.extend(varints[value])


write_varint = write_from(VARINTS)
PAIRS = [
    (read_uvarint, write_uvarint, st.integers(0, 2**32 - 1)),
    (read_uvarint, write_from(UVARINTS), st.integers(0, 2**32 - 1)),
    (read_varint, write_varint, st.integers(-(2**31), 2**31 - 1)),
    (read_varlong, write_varint, st.integers(-(2**63), 2**63 - 1)),
]


@pytest.mark.parametrize(("read", "write", "values"), PAIRS)
@given(data=st.data())
def test_primitive_round_trips(read, write, values, data):
    value = data.draw(values)
    out = bytearray(b"?")
    write(out, value)
    assert read(out, 1) == (value, len(out))
    assert read(memoryview(bytes(out) + b"x"), 1) == (value, len(out))


@pytest.mark.parametrize(
    ("write", "value", "expected"),
    [
        (write_uvarint, 0, "00"),
        (write_uvarint, 127, "7f"),
        (write_uvarint, 128, "8001"),
        (write_uvarint, 2**32 - 1, "ffffffff0f"),
        (write_varint, -1, "01"),
        (write_varint, 1, "02"),
        (write_varint, -(2**31), "ffffffff0f"),
        (write_varint, 2**63 - 1, "feffffffffffffffff01"),
        (write_varint, -(2**63), "ffffffffffffffffff01"),
    ],
)
def test_primitive_has_known_bytes(write, value, expected):
    out = bytearray()
    write(out, value)
    assert out.hex() == expected


@pytest.mark.parametrize("size", range(10))
def test_truncated_primitive_is_refused(size):
    for read in (read_uvarint, read_varint, read_varlong):
        with pytest.raises(RemoteProtocolError):
            read(b"\x80" * size, 0)


@pytest.mark.parametrize(
    ("read", "groups"), [(read_uvarint, 5), (read_varint, 5), (read_varlong, 10)]
)
def test_overlong_primitive_is_refused(read, groups):
    assert read(b"\x80" * (groups - 1) + b"\0", 0) == (0, groups)  # overlong, but within the limit
    with pytest.raises(RemoteProtocolError):
        read(b"\x80" * groups + b"\0", 0)


def test_uvarint_drops_bits_beyond_32():
    assert read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == (2**32 - 1, 5)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_round_trips_as_text(uuid):
    text = uuid_to_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


def test_nil_uuid_as_kafka_writes_it():
    assert uuid_to_text(NIL_UUID) == "A" * 22


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "é" * 22, "A" * 21 + "="]
)
def test_malformed_uuid_is_refused(text):
    with pytest.raises(ValueError, match="UUID"):
        uuid_from_text(text)
