"""MessagePack by its specification: every format is read, any bytes are read or refused, and JSON values round trip."""

import datetime as dt
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.wire.values.failures import UndecodedValue, UnencodedValue
from trimaran.wire.values.msgpack import NESTING_MAX, decode, encode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=4), inner, max_size=20)
    ),
    max_leaves=40,
)


@given(JSON)
def test_written_values_are_read(value):
    assert decode(memoryview(encode(value))) == value


@pytest.mark.parametrize(
    ("make", "first_bytes"),
    [
        (int, {0: 0x00, 127: 0x7F, 128: 0xCC, 255: 0xCC, 256: 0xCD, 2**16 - 1: 0xCD, 2**16: 0xCE}),
        (int, {2**32 - 1: 0xCE, 2**32: 0xCF, 2**64 - 1: 0xCF}),
        (int, {-1: 0xFF, -32: 0xE0, -33: 0xD0, -128: 0xD0, -129: 0xD1, -(2**15): 0xD1}),
        (int, {-(2**15) - 1: 0xD2, -(2**31): 0xD2, -(2**31) - 1: 0xD3, -(2**63): 0xD3}),
        ("x".__mul__, {0: 0xA0, 31: 0xBF, 32: 0xD9, 255: 0xD9, 256: 0xDA}),
        ("x".__mul__, {2**16 - 1: 0xDA, 2**16: 0xDB}),
        ([None].__mul__, {0: 0x90, 15: 0x9F, 16: 0xDC, 2**16 - 1: 0xDC, 2**16: 0xDD}),
        (lambda count: dict.fromkeys(map(str, range(count))), {0: 0x80, 15: 0x8F, 16: 0xDE}),
        (lambda count: dict.fromkeys(map(str, range(count))), {2**16 - 1: 0xDE, 2**16: 0xDF}),
    ],
    ids=["small", "large", "negative", "low", "text", "long text", "lists", "maps", "long maps"],
)
def test_shortest_format_is_written(make, first_bytes):
    for number, first in first_bytes.items():
        data = encode(make(number))
        assert (number, data[0]) == (number, first)
        assert decode(memoryview(data)) == make(number)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    assert_only_raises(UndecodedValue, lambda: decode(memoryview(data)))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("e0", -32),
        ("ff", -1),
        ("cc80", 128),
        ("cd0100", 256),
        ("ce00010000", 65536),
        ("cf8000000000000000", 2**63),
        ("d0df", -33),
        ("d1ff7f", -129),
        ("d2ffff7fff", -32769),
        ("d38000000000000000", -(2**63)),
        ("ca3f000000", 0.5),
        ("cb3fe0000000000000", 0.5),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("a161", "a"),
        ("d90161", "a"),
        ("da000161", "a"),
        ("db0000000161", "a"),
        ("c401ff", b"\xff"),
        ("c50001ff", b"\xff"),
        ("c600000001ff", b"\xff"),
        ("9101", [1]),
        ("dc000101", [1]),
        ("dd0000000101", [1]),
        ("81a16101", {"a": 1}),
        ("de0001a16101", {"a": 1}),
        ("df00000001a16101", {"a": 1}),
        ("840501c302c00380c4", None),
        ("d405ff", {"type": 5, "data": b"\xff"}),
        ("c7000a", {"type": 10, "data": b""}),
        ("d6ff00000001", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        ("d7ff" + (((1_000_000) << 34) + 2).to_bytes(8, "big").hex(), 1_000),
        (
            "c70cff" + struct.pack(">Iq", 0, -1).hex(),
            dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
        ),
    ],
)
def test_each_format_is_read(data, value):
    if value is None and data != "c0":
        with pytest.raises(UndecodedValue):
            decode(memoryview(bytes.fromhex(data)))
        return
    found = decode(memoryview(bytes.fromhex(data)))
    if value == 1_000:
        value = dt.datetime(1970, 1, 1, 0, 0, 2, 1_000, tzinfo=dt.UTC)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "ends within its 0 bytes"),
        ("c1", "no value begins with byte 0xc1"),
        ("0001", "1 of 2 bytes are left"),
        ("dd7fffffff", "ends within"),
        ("a1ff", "not UTF-8"),
        ("8190c0", "a key of a map"),
        ("c70cff" + struct.pack(">Iq", 0, 2**62).hex(), "beyond the years"),
        ("91" * (NESTING_MAX + 1) + "c0", "in each other"),
    ],
)
def test_other_bytes_are_explained(data, why):
    with pytest.raises(UndecodedValue, match=why):
        decode(memoryview(bytes.fromhex(data)))


def test_keys_are_text_as_in_json():
    assert decode(memoryview(bytes.fromhex("840501c302c003c401ff04"))) == {
        "5": 1,
        "true": 2,
        "null": 3,
        "ff": 4,
    }


@pytest.mark.parametrize("around", [b"\x91", b"\x81\xa1k", b"\x82\xa1j\xc0\xa1k"])
def test_deepest_value_is_read_and_written(around):
    data = around * NESTING_MAX + b"\xc0"
    found = decode(memoryview(data))
    assert encode(found) == data
    with pytest.raises(UndecodedValue, match="in each other"):
        decode(memoryview(around + data))
    with pytest.raises(UnencodedValue, match="in each other"):
        encode([found])
    with pytest.raises(UnencodedValue, match="in each other"):
        encode({"k": found})


def test_deepest_keys_are_refused():
    for around in (b"\x81", b"\x91", b"\x81\x91"):
        with pytest.raises(UndecodedValue, match="in each other"):
            decode(memoryview(b"\x81" + around * 2_000 + b"\xc0"))
    with pytest.raises(UndecodedValue, match="a key of a map"):
        decode(memoryview(b"\x81" * NESTING_MAX + b"\xc0" * 2 * NESTING_MAX))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", {"a": b""}])
def test_value_beyond_format_is_refused(value):
    with pytest.raises(UnencodedValue):
        encode(value)


def test_deeper_value_is_not_written():
    value = None
    for _ in range(NESTING_MAX + 1):
        value = [value]
    with pytest.raises(UnencodedValue, match="in each other"):
        encode(value)
