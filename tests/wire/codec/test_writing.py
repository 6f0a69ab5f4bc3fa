"""Rules of generated encoders: sizes, bounds of responses, encoded elements, and cached packers."""

import struct

import pytest

from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec import writer
from trimaran.wire.codec.build import build_element_writer, build_writer
from trimaran.wire.codec.declarations import EncodedArray, Struct, field, int8, int32, string, uuid
from trimaran.wire.codec.source import FunctionSource
from trimaran.wire.codec.writing import RunPackers, raise_absent, write_string_size, write_tags
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.schema import Message, message, response


class Small(Struct):
    number: int32


class Large(Struct):
    text: string
    small: Small = field(factory=Small)


@response(key=901, versions="0-1", flexible="1+")
class Arrays(Message):
    words: list[string]
    smalls: list[Small]
    larges: list[Large]
    numbers: list[int32]


@message(key=901, versions="0-1", flexible="1+")
class Asked(Message):
    words: list[string]
    smalls: list[Small]


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16_382, 16_383, 16_384, 32_767])
def test_compact_string_of_any_size_is_written(size):
    out = bytearray(b"before")
    write_string_size(out, size + 1)
    groups = [size + 1 & 0x7F, size + 1 >> 7 & 0x7F, size + 1 >> 14]
    while len(groups) > 1 and not groups[-1]:
        groups.pop()
    assert out == b"before" + bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def test_string_beyond_kafkas_bound_is_refused():
    out = bytearray()
    with pytest.raises(LocalProtocolError, match="32768 bytes is longer than 32767"):
        write_string_size(out, 32_769)
    assert not out
    for version in (0, 1):
        for size in (32_767, 32_768):
            sample = Asked(words=["x" * size], smalls=[])
            if size == 32_767:
                assert Asked.decode(sample.encode(version), version) == sample
            else:
                with pytest.raises(LocalProtocolError):
                    sample.encode(version)


def test_tags_have_number_and_size():
    out = bytearray(b"b")
    write_tags(out, [(0, bytearray()), (300, bytearray(b"x" * 200))])
    assert out == b"b\2" + b"\0\0" + b"\xac\2" + b"\xc8\1" + b"x" * 200


def test_absent_field_is_named():
    with pytest.raises(LocalProtocolError, match=r"A\.b is set but does not exist in version 3"):
        raise_absent("A.b", 3)


def test_packer_writes_fields_around_an_array():
    packers = RunPackers(">h{}b{}", ("i", "16s"))
    ids = [bytes(range(16)), bytes(16)]
    for counts in ((0, 0), (2, 2), (40, 1)):
        numbers = list(range(counts[0]))
        packed = packers[counts](7, *numbers, -1, *ids[: counts[1]])
        assert packed == struct.pack(f">h{counts[0]}ib", 7, *numbers, -1) + b"".join(
            ids[: counts[1]]
        )


def test_packers_of_short_arrays_are_kept():
    packers = RunPackers(">{}", ("b",))
    for count in range(40):
        assert packers[(count,)](*[1] * count) == b"\1" * count
    assert set(packers) == {(count,) for count in range(33)}


def test_few_packers_are_kept():
    packers = RunPackers(">{}{}", ("b", "h"))
    for one in range(20):
        for other in range(20):
            assert len(packers[one, other](*[1] * (one + other))) == one + 2 * other
    assert len(packers) == 256
    assert packers[0, 33](*[1] * 33) == b"\0\1" * 33
    assert len(packers) == 256


def written(sample, version=0):
    """Returns the bytes until the response is too large, and whether it is."""
    out = bytearray()
    try:
        build_writer(type(sample), version)(sample, out)
    except ResponseTooLarge:
        return len(out), True
    return len(out), False


@pytest.mark.parametrize("version", [0, 1])
def test_response_ends_with_first_element_beyond_bound(version, monkeypatch):
    monkeypatch.setattr(writer, "ENCODED_BYTES_MAX", 100)
    empty = Arrays(words=[], smalls=[], larges=[], numbers=[])
    for name, element, size, begun in (
        ("words", "x" * 9, 11 - version, 4),
        ("larges", Large(text="y" * 6, small=Small(number=1)), 12 + version, 12),
    ):
        begun = begun if version == 0 else begun // 4
        most = (100 - begun) // size
        fitting, over = (empty.replace(**{name: [element] * count}) for count in (most, 50))
        assert written(fitting, version)[1] is False
        assert written(over, version) == (begun + size * (most + 1), True)


@pytest.mark.parametrize("version", [0, 1])
def test_small_elements_are_counted_behind_their_array(version, monkeypatch):
    monkeypatch.setattr(writer, "ENCODED_BYTES_MAX", 100)
    size = 4 + version
    smalls = [Small(number=1)] * 30
    empty = Arrays(words=[], smalls=smalls, larges=[], numbers=[])
    assert written(empty, version) == ((8, 2)[version] + 30 * size, True)
    encoded = EncodedArray([b"x" * 10] * 12)
    begun = (4, 1)[version] * 3
    assert written(empty.replace(smalls=[], larges=encoded), version) == (begun + 120, True)
    within = EncodedArray([b"x" * 10] * 8)
    assert written(empty.replace(smalls=[], larges=within), version)[1] is False


def test_bound_of_responses_is_in_bytes(monkeypatch):
    monkeypatch.setattr(writer, "ENCODED_BYTES_MAX", 100)
    for size in (100, 101):
        larges = EncodedArray([b"x" * (size - 12)])  # behind three counts
        sample = Arrays(words=[], smalls=[], larges=larges, numbers=[])
        assert written(sample) == ((size, True) if size > 100 else (size + 4, False))
    asked = Asked(words=["x" * 90] * 9, smalls=[Small(number=1)] * 99)
    assert written(asked) == (8 + 92 * 9 + 4 * 99, False)


def test_element_is_written_as_in_its_message():
    element = Large(text="t", small=Small(number=2))
    for version, expected in ((0, "0001" + "74" + "00000002"), (1, "0274" + "0000000200" + "00")):
        out = bytearray()
        build_element_writer(Large, Arrays, version)(element, out)
        assert out.hex() == expected
        plain = Arrays(words=[], smalls=[], larges=[element], numbers=[])
        encoded = plain.replace(larges=EncodedArray([bytes(out)]))
        assert encoded.encode(version) == plain.encode(version)


@message(versions="0", flexible="0+")
class Runs(Message):
    before: int8
    numbers: list[int8]
    text: string
    ids: list[uuid]
    after: int8


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128])
@pytest.mark.parametrize("size", [0, 126, 127])
def test_sizes_of_two_bytes_split_a_run(count, size):
    def compact(number):
        low = bytes([number + 1 & 0x7F | 0x80, number + 1 >> 7])
        return low if number + 1 > 127 else bytes([number + 1])

    sample = Runs(before=1, numbers=[2] * count, text="x" * size, ids=[bytes(16)] * count, after=3)
    assert sample.encode(0) == (
        b"\1" + compact(count) + b"\2" * count + compact(size) + b"x" * size
        + compact(count) + bytes(16 * count) + b"\3" + b"\0"
    )  # fmt: skip


def test_empty_block_is_a_function_without_effect():
    source = FunctionSource(known=5)
    with source.block("def run():"):
        with source.block("if known:"):
            pass
        with source.block("for _ in range(3):"):
            source.emit("known")
        source.emit(f"return {source.constant(None)}, {source.constant(b'x')}, known")
    assert source.compile("run", "<an empty block>")() == (None, b"x", 5)


def test_constants_keep_their_identity():
    shared = Small(number=1)
    source = FunctionSource()
    first, second = source.constant(shared), source.constant(shared)
    with source.block("def run():"):
        source.emit(f"return {first}, {second}")
    one, other = source.compile("run", "<constants>")()
    assert one is other is shared
