"""Random messages of any declared class and version: every field of the version, with its extreme values.

The first two samples of a class are its extremes: in one everything is absent, null, empty or zero; in the other
everything is present and differs from its default. The rest are drawn from a seed, so that the number of a sample
reproduces a failure. `tame` values are also accepted by libraries with richer types than those of the wire: existing
error codes, times that fit into a `datetime`.
"""

import zlib
from collections.abc import Iterator
from functools import cache
from random import Random

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import FieldPlan, Shape, StructPlan, plan_struct
from trimaran.wire.schema import Message

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
STRINGS = (
    "",
    "topic",
    "a\0b\n\"'\\",
    "größer ≤ 東京 \U0001f600",
    "\x7f\x80\u07ff\u0800\ufffd\uffff",
    "é" * 64,  # a compact size of two bytes
)
FLOATS = (0.0, -1.5, 0.1, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16)
STRING_BYTES_LONG = 0x7FFF  # the longest that is encoded; rare, because it is slow


class Drawing:
    """Draws values; `fullness` is the probability that an optional value is present and not empty."""

    def __init__(self, rng: Random, fullness: float, *, tame: bool = False) -> None:
        self.rng = rng
        self.fullness = fullness
        self.tame = tame

    def struct(self, cls: type[Struct], version: int) -> Struct:
        plan = plan_of(cls, version)
        return cls(**{p.name: self.field(p, version) for p in (*plan.plain, *plan.tagged)})

    def field(self, p: FieldPlan, version: int):
        full = self.rng.random() < self.fullness
        if p.field.tag is not None and not full and self.rng.random() >= self.fullness / 2:
            return p.field.factory() if p.field.factory else p.field.default
        if p.nullable and not full:
            return None
        if self.tame and (limits := tame_limits(p.name)):
            return self.rng.randint(*limits)
        return self.value(p.shape, version, full)

    def value(self, shape: Shape, version: int, full: bool):
        if shape.struct is not None:
            return self.struct(shape.struct, version)
        if shape.item is not None:
            size = self.rng.choice((1, 1, 2, 3)) if full else 0
            if shape.item.wire is not None and size == 3:
                size = self.rng.choice((3, 130))  # a count of two bytes
            return [self.value(shape.item, version, True) for _ in range(size)]
        return self.primitive(shape.wire.name, full)

    def primitive(self, name: str, full: bool):
        rng = self.rng
        if name in INTEGERS:
            low, high = INTEGERS[name]
            near = (0, 1, -1, 127, 128, low, low + 1, high - 1, high)
            if not full:
                return 0
            return rng.choice([n for n in near if low <= n <= high] + [rng.randint(low, high)] * 4)
        match name:
            case "float64":
                return rng.choice((*FLOATS, rng.uniform(-1e9, 1e9))) if full else 0.0
            case "bool":
                return full
            case "uuid":
                return rng.randbytes(16) if full else bytes(16)
            case "string":
                return self.text() if full else ""
            case _:
                return rng.randbytes(rng.choice((1, 8, 8, 127, 128, 300))) if full else b""

    def text(self) -> str:
        rng = self.rng
        if rng.random() < 0.5:
            return rng.choice(STRINGS)
        if rng.random() < 0.002:
            return "x" * STRING_BYTES_LONG
        alphabet = "abcXYZ019-_. äß漢\U0001f980"
        return "".join(rng.choices(alphabet, k=rng.randint(1, 20)))


@cache
def plan_of(cls: type[Struct], version: int) -> StructPlan:
    return plan_struct(cls, version)


def tame_limits(name: str) -> tuple[int, int] | None:
    if name.endswith("error_code"):
        return -1, 100
    if name.endswith(("_ms", "timestamp", "_time")):
        return 0, 2**31 - 1
    return None


def random_message(cls: type[Message], version: int, seed: int, *, tame: bool = False) -> Message:
    """Returns sample number `seed` of a class in a version; 0 and 1 are its empty and its full extreme."""
    name = f"{cls.__name__} {version} {seed}"
    fullness = (0.0, 1.0)[seed] if seed < 2 else 0.7
    return Drawing(Random(zlib.crc32(name.encode())), fullness, tame=tame).struct(cls, version)


def samples(
    cls: type[Message], version: int, count: int, *, tame: bool = False
) -> Iterator[Message]:
    return (random_message(cls, version, seed, tame=tame) for seed in range(count))
