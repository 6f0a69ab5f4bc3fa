"""Rules of generated codecs that random messages seldom reach."""

import struct
import traceback

import pytest

from tests.wire.twins import outcome
from trimaran.wire.codec.build import generated_reader
from trimaran.wire.codec.declarations import Struct, field, int16
from trimaran.wire.codec.plan import plan_struct, size_min
from trimaran.wire.codec.reading import read_long_array
from trimaran.wire.codec.source import FunctionSource
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import DECODE_BUDGET, Message, message


class Pair(Struct):
    one: int16
    other: int16


@message(versions="0-1", flexible="1+")
class Pairs(Message):
    pairs: list[Pair]
    always: Pair
    sometimes: Pair | None
    extra: Pair | None = field(default=None, tag=0)


PAIR = bytes(4) + b"\0"
REST = PAIR + b"\xff"


def read(data):
    """Returns the message that generated code reads, and the bytes after it; None if the bytes are refused."""
    found = outcome(generated_reader(Pairs, 1), data)
    return None if found is None else (found[0], data[found[1] :])


@pytest.mark.parametrize("count", [3, 4, 5, 9])
def test_tag_of_any_element_is_read(count):
    message = Pairs(
        pairs=[Pair(one=0, other=0)] * count, always=Pair(one=0, other=0), sometimes=None
    )
    for tagged in range(count):
        pairs = [PAIR] * count
        pairs[tagged] = bytes(4) + b"\1\5\0"
        data = bytes([count + 1]) + b"".join(pairs) + REST + b"\0"
        assert read(data) == (message, b"")
        assert read(data[:-1]) is None


TAGS_MAX = DECODE_BUDGET.tags_max


@pytest.mark.parametrize("count", [0, 1, 127, TAGS_MAX, TAGS_MAX + 1])
def test_tags_are_read_up_to_their_bound(count):
    head = struct.pack("BB", count & 0x7F | 0x80, count >> 7) if count > 127 else bytes([count])
    tags = b"".join(
        struct.pack("BBB", tag & 0x7F | 0x80, tag >> 7, 0) for tag in range(128, 128 + count)
    )
    message = Pairs(pairs=[], always=Pair(one=0, other=0), sometimes=None)
    assert read(b"\1" + REST + head + tags) == ((message, b"") if count <= TAGS_MAX else None)


@pytest.mark.parametrize("item", ["b", "i", "16s"])
def test_long_array_ends_within_its_bounds(item):
    size = struct.calcsize(">" + item)
    data = bytes(2 + 40 * size)
    assert len(read_long_array("n", item, 40, data, 2, len(data))) == 40
    for count, end in ((41, len(data)), (40, len(data) - 1), (-1, len(data))):
        with pytest.raises(RemoteProtocolError):
            read_long_array("n", item, count, data, 2, end)


@pytest.mark.parametrize(("version", "sizes"), [(0, [4, 4, 1]), (1, [1, 5, 1])])
def test_least_sizes_are_those_of_encodings(version, sizes):
    plan = plan_struct(Pairs, version)
    found = [size_min(p.shape, p.nullable, version, bool(version)) for p in plan.plain]
    assert found == sizes


def test_traceback_shows_the_generated_line():
    source = FunctionSource()
    with source.block("def fails():"):
        source.emit("raise ValueError('shown')")
    with pytest.raises(ValueError, match="shown") as failed:
        source.compile("fails", "<a generated function>")()
    assert "    raise ValueError('shown')" in "".join(traceback.format_exception(failed.value))
