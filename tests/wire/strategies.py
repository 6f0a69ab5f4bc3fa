"""Hypothesis strategies for any declared message: all fields that a version can say.

`tame` values are those that libraries with richer types than the wire's accept: error codes that
exist, times that fit into a `datetime`.
"""

from functools import cache

from hypothesis import strategies as st

from wire.codec.plan import FieldPlan, Shape, plan_struct
from wire.schema import Message, Struct

_INTS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


@cache
def _wire(name: str) -> st.SearchStrategy:
    if name in _INTS:
        return st.integers(*_INTS[name])
    if name == "float64":
        return st.floats(allow_nan=False)
    if name == "bool":
        return st.booleans()
    if name == "uuid":
        return st.binary(min_size=16, max_size=16)
    if name == "string":
        # Long enough now and then for a compact size of two bytes.
        return st.text(max_size=8) | st.just("é" * 70)
    return st.binary(max_size=8) | st.just(bytes(range(200)))


def _value(shape: Shape, nullable: bool, version: int, tame: bool) -> st.SearchStrategy:
    if shape.wire is not None:
        value = _wire(shape.wire.name)
    elif shape.item is not None:
        value = st.lists(_value(shape.item, False, version, tame), max_size=2)
    else:
        value = structs(shape.struct, version, tame)
    return st.none() | value if nullable else value


def _tame(name: str) -> st.SearchStrategy | None:
    if name == "error_code":
        return st.integers(-1, 100)
    if name.endswith(("_ms", "timestamp", "_time")):
        return st.integers(0, 2**31 - 1)
    return None


def _field(p: FieldPlan, version: int, tame: bool) -> st.SearchStrategy:
    value = _tame(p.name) if tame else None
    if value is None:
        value = _value(p.shape, p.nullable, version, tame)
    if p.field.tag is None:
        return value
    default = st.builds(p.field.factory) if p.field.factory else st.just(p.field.default)
    return default | value


@cache
def structs(cls: type[Struct], version: int, tame: bool) -> st.SearchStrategy:
    plan = plan_struct(cls, version)
    present = (*plan.plain, *plan.tagged)
    return st.builds(cls, **{p.name: _field(p, version, tame) for p in present})


def messages(cls: type[Message], version: int, *, tame: bool = False) -> st.SearchStrategy:
    return structs(cls, version, tame)
