"""Every layout of a field: the generated encoder and decoder and the compiled decoder behave like the naive codec."""

import random

import pytest

from tests.checks import check_each
from tests.wire import naive_codec
from tests.wire.codec import layouts
from tests.wire.codec.layouts import (
    ALL,
    Appended,
    Batch,
    Batches,
    Choice,
    Every,
    Fixed,
    Named,
    Options,
)
from tests.wire.twins import COMPILED, outcome, readers
from trimaran.wire.codec.build import generated_reader
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget

BYTES = (0, 1, 2, 127, 128, 255)


def naive(cls, version, data, budget=DECODE_BUDGET):
    """Returns the message, its end and the number of elements left; None for bytes that are refused."""
    reader = naive_codec.NaiveReader(data, version, version in cls.FLEXIBLE, budget)
    try:
        return reader.struct(cls), reader.stream.tell(), reader.left
    except RemoteProtocolError:
        return None


class Alike:
    """The decoders of a message, which must behave like the naive one."""

    def __init__(self, cls, version):
        self.cls = cls
        self.version = version
        self.read = readers(cls, version) if COMPILED else [generated_reader(cls, version)]

    def __call__(self, data, budget=DECODE_BUDGET):
        wanted = naive(self.cls, self.version, data, budget)
        for read in self.read:
            found = outcome(read, data, budget)
            assert found == wanted or repr(found) == repr(wanted), data  # a NaN is not itself
        return wanted


def test_samples_are_encoded_and_decoded():
    def travels(pair):
        cls, version = pair
        reads_alike = Alike(cls, version)
        for sample in layouts.samples(cls, version):
            encoded = sample.encode(version)
            assert encoded == naive_codec.encode(sample, version)
            assert reads_alike(encoded)[:2] == (sample, len(encoded))

    check_each(ALL, travels)


def test_full_message_has_kafkas_layout():
    fixed, named = "0000000101", "00016e0000000100000003"
    assert layouts.full(0).encode(0).hex() == (
        "fffffeffff" + "fffffffd" + "ffffffff" + "fffffffffffffffc" + "3fe0000000000000" + "01"
        "000102030405060708090a0b0c0d0e0f" + "0002c3a9" + "00056d61796265" + "00000004626c6f62"
        "0000000178" + "000000020000000500000006" + "0007" + "000000010000000000000008"
        "000000010009"
        + "00000002"
        + layouts.IDS[0].hex()
        + layouts.IDS[1].hex()
        + "00000002"
        + "000161"
        + "0000"
        + "00000002"
        + "00000000"
        + "000000026262"
        + "00000004"
        + "".join(f"0000000{at}01" for at in range(1, 5))
        + "00000001"
        + fixed
        + "00000002"
        + named * 2
        + "00000001"
        + named
        + named
        + "01"
        + named
    )
    flexible, compact = "000000010100080100020201", "026e020000000300"
    assert layouts.full(2).encode(2).hex().endswith(
        "03" + compact * 2 + "02" + compact + compact + "01" + compact
        + "0a" + "00020274" + "010101" + "020400000001" + "0310" + layouts.IDS[1].hex()
        + "0405020000000a" + "050d" + "02" + flexible
        + "0615" + "00000004" + "02026f" + "00" + "01" + "01" + "000000010100080000" + "ff00"
        + "070101" + "0909" + "01" + compact + "0a020002"
    )  # fmt: skip


def test_message_of_any_buffer_has_declared_types():
    for cls, sample in (
        (Batches, Batches(name="n", key=b"k", batches=[Batch(index=1, records=b"r")])),
        (Appended, Appended(records=b"r", maybe_key=b"k")),
        (Every, layouts.full(1)),
    ):
        encoded = sample.encode(1)
        for buffer in (encoded, bytearray(encoded), memoryview(bytearray(encoded))):
            found, _, _ = generated_reader(cls, 1)(buffer, 1000, 10)
            assert found == sample
            for value in (getattr(found, name) for name in found.__slots__):
                assert not isinstance(value, bytearray)
            match found:
                case Batches():
                    assert (type(found.name), type(found.key)) == (str, bytes)
                    assert type(found.batches[0].records) is memoryview
                case Appended():
                    assert type(found.records) is memoryview
                    assert type(found.maybe_key) is bytes
                case _:
                    assert type(found.blob) is bytes


def test_message_with_wrong_byte_has_naive_result():
    def judged(pair):
        cls, version = pair
        if pair == (Every, 1):
            return  # same layout as version 2
        sample = layouts.full(version) if cls is Every else layouts.samples(cls, version)[1]
        encoded = sample.encode(version)[:320]
        reads_alike, refused = Alike(cls, version), 0
        for at, byte in enumerate(encoded):
            for other in {*BYTES, (byte - 1) % 256, (byte + 1) % 256} - {byte}:
                data = encoded[:at] + bytes([other]) + encoded[at + 1 :]
                refused += reads_alike(data) is None
            refused += reads_alike(encoded[:at]) is None
        assert refused > len(encoded)

    check_each(ALL, judged)


def test_broken_messages_have_the_naive_result():
    def judged(pair):
        cls, version = pair
        reads_alike, rng = Alike(cls, version), random.Random(f"{cls.__name__} {version}")
        for sample in layouts.samples(cls, version):
            encoded = sample.encode(version)
            for _ in range(20):
                at, size = rng.randrange(len(encoded)), rng.randrange(4)
                broken = encoded[:at] + rng.randbytes(rng.randrange(4)) + encoded[at + size :]
                reads_alike(broken)
        assert reads_alike(b"") is None

    check_each(ALL, judged)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_budget_of_elements_is_used_equally(version):
    reads_alike = Alike(Every, version)
    for sample in layouts.samples(Every, version)[8:]:
        encoded = sample.encode(version)
        _, _, left = naive(Every, version, encoded)
        needed = DECODE_BUDGET.elements_max - left
        for most in {*range(60), needed - 1, needed, needed + 1, needed + 33}:
            found = reads_alike(encoded, DecodeBudget(1 << 20, most, 20))
            assert (found is None) == (most < needed)
        for tags_max in range(12):
            found = reads_alike(encoded, DecodeBudget(1 << 20, 10_000, tags_max))
            assert (found is None) == (version > 0 and tags_max < 8 + version)


def test_any_change_of_default_is_sent():
    sample = layouts.full(1).replace(choice=Choice())
    options = [
        Options(number=4),
        Options(names=["x"]),
        Options(maybe_names=["x"]),
        Options(maybe_names=None),
        Options(note=""),
        Options(fixed=Fixed(number=0, flag=False)),
    ]
    size = len(sample.encode(1))
    for choice in (
        *(Choice(options=each) for each in options),
        *(Choice(maybe_options=each) for each in options),
        Choice(maybe_options=None),
    ):
        sent = sample.replace(choice=choice)
        assert Every.decode(sent.encode(1), 1) == sent
        assert len(sent.encode(1)) > size
        with pytest.raises(LocalProtocolError, match=r"Every\.choice is set but does not exist"):
            layouts.full(0).replace(choice=choice).encode(0)
    same = Choice(options=Options(), maybe_options=Options())
    assert len(sample.replace(choice=same).encode(1)) == size
    assert layouts.full(0).replace(choice=same).encode(0) == layouts.full(0).encode(0)


def test_null_element_is_refused_by_encoder():
    for wrong in ({"words": [None]}, {"named": [None]}, {"inner": None}, {"text": None}):
        for version in (0, 1):
            with pytest.raises(LocalProtocolError):
                layouts.full(version).replace(**wrong).encode(version)
    with pytest.raises(LocalProtocolError):
        layouts.full(0).replace(inner=Named(name="n", numbers=None)).encode(0)
