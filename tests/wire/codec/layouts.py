"""Messages that together have every layout of a field, with samples of each. Real messages have only some of the
layouts.
"""

from tests.wire.random_messages import random_message
from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    data,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    uint16,
    uint32,
    uuid,
)
from trimaran.wire.schema import Message, message

IDS = [bytes(range(at, at + 16)) for at in range(5)]


class Fixed(Struct):
    """A message with one fixed size in each version, if it has no tags."""

    number: int32
    flag: boolean
    added: int16 = field("1+", default=7)
    marks: list[int8] = field("1+", factory=list, tag=0)


class Named(Struct):
    name: string
    numbers: list[int32]


class Options(Struct):
    """A message in which each field has a different kind of default."""

    number: int32 = 3
    names: list[string] = field(factory=list)
    maybe_names: list[string] | None = field(factory=list)
    note: string | None = None
    fixed: Fixed | None = None


class Choice(Struct):
    options: Options = field(factory=Options)
    maybe_options: Options | None = field(factory=Options)


@message(versions="0-2", flexible="1+")
class Every(Message):
    tiny: int8
    small: int16
    unsigned_small: uint16
    number: int32
    unsigned: uint32
    large: int64
    real: float64
    flag: boolean
    identity: uuid
    text: string
    maybe_text: string | None
    blob: data
    maybe_blob: data | None
    numbers: list[int32]
    after_numbers: int16
    maybe_numbers: list[int64] | None
    maybe_later: list[int16] | None = field("0+", default=None, nullable="1+")
    ids: list[uuid]
    words: list[string]
    blobs: list[data]
    fixed: list[Fixed]
    maybe_fixed: list[Fixed] | None
    named: list[Named]
    maybe_named: list[Named] | None
    inner: Named
    maybe_inner: Named | None
    maybe_tag: Named | None = field("1+", default=None, tag=9)
    text_tag: string = field("1+", default="d", tag=0)
    null_tag: string | None = field("1+", default=None, tag=1)
    number_tag: int32 = field("1+", default=-1, tag=2)
    id_tag: uuid = field("1+", default=bytes(16), tag=3)
    numbers_tag: list[int32] = field("1+", factory=list, tag=4)
    fixed_tag: list[Fixed] | None = field("1+", factory=list, tag=5)
    choice: Choice = field("1+", factory=Choice, tag=6)
    newest: int8 = field("2+", default=0, tag=7)
    oldest: int8 = field("1", default=0, tag=10)
    reused: int16 = field("2+", default=0, tag=10)


class Batch(Struct):
    index: int32
    records: record_batches | None


@message(versions="0-1", flexible="1+")
class Batches(Message):
    """A message with records only inside the elements of an array."""

    name: string
    key: data
    batches: list[Batch]


@message(versions="0-1", flexible="1+")
class Appended(Message):
    records: record_batches
    maybe_key: data | None


class Hollow(Struct):
    """A message without fields in version 0."""

    added: int8 = field("1+", default=5)


@message(versions="0-1", flexible="1+")
class Hollows(Message):
    hollows: list[Hollow]
    after: uuid


ALL = [
    (cls, version)
    for cls in (Every, Batches, Appended, Hollows)
    for version in range(cls.VERSIONS.high + 1)
]


def full(version: int) -> Every:
    """Returns a message in which every field is present, short, and different from its default."""
    fixed = [Fixed(number=at, flag=True, added=7 + bool(version)) for at in range(1, 5)]
    named = Named(name="n", numbers=[3])
    plain = Every(
        tiny=-1,
        small=-2,
        unsigned_small=65_535,
        number=-3,
        unsigned=2**32 - 1,
        large=-4,
        real=0.5,
        flag=True,
        identity=IDS[0],
        text="é",
        maybe_text="maybe",
        blob=b"blob",
        maybe_blob=b"x",
        numbers=[5, 6],
        after_numbers=7,
        maybe_numbers=[8],
        maybe_later=[9],
        ids=IDS[:2],
        words=["a", ""],
        blobs=[b"", b"bb"],
        fixed=fixed,
        maybe_fixed=fixed[:1],
        named=[named, named],
        maybe_named=[named],
        inner=named,
        maybe_inner=named,
    )
    if version == 0:
        return plain
    options = Options(number=4, names=["o"], maybe_names=None, note="", fixed=fixed[0])
    return plain.replace(
        maybe_tag=named,
        text_tag="t",
        null_tag="",
        number_tag=1,
        id_tag=IDS[1],
        numbers_tag=[10],
        fixed_tag=[fixed[0].replace(marks=[1])],
        choice=Choice(options=options, maybe_options=None),
        **({"oldest": 1} if version == 1 else {"newest": 1, "reused": 2}),
    )


def samples(cls: type[Message], version: int) -> list[Message]:
    """Returns the extremes, some random messages, and one with arrays and texts of more than 127 elements."""
    found = [random_message(cls, version, seed) for seed in range(8)]
    if cls is Every:
        each = full(version)
        found += [
            each,
            each.replace(
                text="é" * 100,
                maybe_text="x" * 127,
                blob=bytes(20_000),
                numbers=list(range(200)),
                maybe_numbers=list(range(33)),
                ids=IDS * 30,
                words=["w"] * 130,
                fixed=each.fixed * 40,
                named=each.named * 70,
            ),
            each.replace(numbers=list(range(31)), maybe_numbers=list(range(32))),
            each.replace(maybe_text=None, maybe_blob=None, maybe_numbers=None, maybe_fixed=None),
            each.replace(
                maybe_named=None, maybe_inner=None, fixed_tag=[] if version == 0 else None
            ),
        ]
    if cls is Hollows:
        found += [Hollows(hollows=[Hollow()] * count, after=IDS[0]) for count in (3, 4, 5)]
    return found
