"""Rules of generated decoders: sizes, tags, and the messages of refusals."""

import struct

import pytest

from trimaran.wire.codec import build
from trimaran.wire.codec.build import build_bulk_reader, build_reader, generated_reader
from trimaran.wire.codec.declarations import Struct, field, int8, int32, string, uuid
from trimaran.wire.codec.reading import (
    ArrayUnpackers,
    bad_size,
    read_long_array,
    read_tag,
    skip_tags,
)
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import Message, message

REFUSED = (4, 9)


class Plain(Struct):
    number: int8


@message(versions="0-1", flexible="1+")
class Texts(Message):
    text: string
    plain: Plain | None = None
    numbers: list[int32] = field(factory=list)


@pytest.mark.parametrize(
    ("size", "told"), [(-1, "n is null"), (-2, "n has size -2, "), (0, "n has size 0, ")]
)
def test_refused_size_is_named(size, told):
    with pytest.raises(RemoteProtocolError, match=told):
        bad_size("n", size)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff\xff", "Texts.text is null"),
        (b"\xff\xfe", "Texts.text has size -2, which is more than there is or allowed"),
        (b"\x00\x03ab", "Texts.text has size 3,"),
        (b"\x00\x00\xff" + b"\xff" * 4, "Texts.numbers is null"),
        (b"\x00\x00\xff\x00\x00\x00\x21" + bytes(131), "Texts.numbers has size 33,"),
    ],
)
def test_refusal_names_the_field(data, told):
    with pytest.raises(RemoteProtocolError, match=told):
        generated_reader(Texts, 0)(data, 100, 10)


@pytest.mark.parametrize("size", [32_766, 32_767, 32_768])
def test_string_has_kafkas_bound(size):
    old = struct.pack(">H", size) + bytes(size) + b"\xff" + bytes(4)
    size_1 = size + 1
    new = bytes([size_1 & 0x7F | 0x80, size_1 >> 7 & 0x7F | 0x80, size_1 >> 14])
    new += bytes(size) + b"\xff\1\0"
    for version, data in ((0, old), (1, new)):
        if size > 32_767:
            with pytest.raises(RemoteProtocolError, match=r"Texts\.text has size"):
                generated_reader(Texts, version)(data, 100, 10)
        else:
            found, end, left = generated_reader(Texts, version)(data, 100, 10)
            assert (found, end, left) == (Texts(text="\0" * size), len(data), 100)


def test_long_array_may_be_empty():
    assert read_long_array("n", "i", 0, b"", 0, 0) == []
    assert read_long_array("n", "16s", 2, bytes(range(33)), 1, 33) == [
        bytes(range(1, 17)),
        bytes(range(17, 33)),
    ]


@pytest.mark.parametrize(("item", "size"), [("b", 1), ("q", 8), ("16s", 16)])
def test_short_arrays_keep_few_readers(item, size):
    readers = ArrayUnpackers(item, "h")
    for count in range(33):
        data = bytes(range(count)) * size + b"\0\5"
        assert len(readers[count](data, 0)) == count + 1
        assert readers[count](data, 0)[-1] == 5
        assert readers[count] is readers[count]
    assert len(readers) == 33


@message(versions="0", flexible="0+")
class Lengths(Message):
    one: list[int8]
    other: list[uuid]


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 126, 127, 128, 16_383, 16_384])
def test_arrays_of_any_length_are_read(count):
    sample = Lengths(one=[1] * count, other=[bytes(range(16))] * (count % 130))
    data = sample.encode(0)
    elements = count + count % 130
    for most in (elements, elements + 40):
        found, end, left = generated_reader(Lengths, 0)(data, most, 1)
        assert (found, end, left) == (sample, len(data), most - elements)
    if count:
        with pytest.raises(RemoteProtocolError):
            generated_reader(Lengths, 0)(data, elements - 1, 1)
        with pytest.raises((RemoteProtocolError, struct.error, IndexError)):
            generated_reader(Lengths, 0)(data[: count // 2], elements, 1)


@pytest.mark.parametrize(
    ("data", "last", "end", "found"),
    [
        (b"?\5\2ab", -1, 5, (5, 3, 5)),
        (b"?\0\0", -1, 3, (0, 3, 3)),
        (b"?\0\0", 0, 3, None),
        (b"?\5\2ab", 5, 5, None),
        (b"?\5\2ab", 4, 5, (5, 3, 5)),
        (b"?\5\2ab", 6, 5, None),
        (b"?\5\2abc", -1, 6, (5, 3, 5)),
        (b"?\5\2abc", -1, 4, None),
        (b"?\4\2ab", -1, 5, None),
        (b"?\x09\0", 5, 5, None),
    ],
)
def test_tags_ascend_and_end_in_time(data, last, end, found):
    if found is not None:
        assert read_tag("n", REFUSED, data, 1, last, end) == found
    else:
        with pytest.raises(RemoteProtocolError, match=f"n has tag {data[1]} out of place"):
            read_tag("n", REFUSED, data, 1, last, end)


@pytest.mark.parametrize(
    ("data", "most", "found"),
    [
        (b"?\0", 0, (2, 0)),
        (b"?\2\0\0\1\1a", 2, (7, 2)),
        (b"?\2\0\0\1\1a", 3, (7, 2)),
        (b"?\2\0\0\1\1a", 1, None),
        (b"?\2\1\0\1\0", 2, None),
        (b"?\2\1\0\0\0", 2, None),
        (b"?\1\x04\0", 2, None),
    ],
)
def test_unknown_tags_are_skipped_and_counted(data, most, found):
    if found is not None:
        assert skip_tags("n", REFUSED, data, 1, len(data), most) == found
    else:
        with pytest.raises(RemoteProtocolError, match=r"n tags has size|n has tag"):
            skip_tags("n", REFUSED, data, 1, len(data), most)


@pytest.mark.parametrize(
    ("left", "tags_max", "found"), [(3, 9, 1), (2, 9, 0), (1, 9, None), (9, 1, None)]
)
def test_skipped_tags_use_the_budget(left, tags_max, found):  # fmt: skip
    data = b"\1\xff\1" + b"\2\5\0\6\1x"
    if found is None:
        with pytest.raises(RemoteProtocolError, match="Texts tags has size 2"):
            generated_reader(Texts, 1)(data, left, tags_max)
    else:
        assert generated_reader(Texts, 1)(data, left, tags_max) == (Texts(text=""), 9, found)


def test_generated_readers_replace_missing_compiled_ones(monkeypatch):
    monkeypatch.setattr(build, "build_decoder", None)
    data = b"\1\xff\1\0"
    assert build_reader(Texts, 1)(data, 9, 9) == (Texts(text=""), 4, 9)
    assert build_bulk_reader(Texts, 1)([data], b"", 9, 9) is None


@pytest.mark.skipif(build.build_decoder is None, reason="not compiled here")
def test_compiled_reader_leaves_messages_to_generated_one():
    assert build_reader(Texts, 1)(b"\1\xff\1\0", 9, 9) == (Texts(text=""), 4, 9)
    assert build_bulk_reader(Texts, 1)([b"p\1\xff\1\0"], b"p", 9, 9) == [Texts(text="")]
    assert build_bulk_reader(Texts, 1)([b"p\0"], b"p", 9, 9) is None
    with pytest.raises(RemoteProtocolError, match=r"Texts\.text is null"):
        build_reader(Texts, 1)(b"\0", 9, 9)
