"""Hypothesis strategies for any declared message: all fields that a version can say."""

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


def _value(shape: Shape, nullable: bool, version: int) -> st.SearchStrategy:
    if shape.wire is not None:
        value = _wire(shape.wire.name)
    elif shape.item is not None:
        value = st.lists(_value(shape.item, False, version), max_size=2)
    else:
        value = structs(shape.struct, version)
    return st.none() | value if nullable else value


def _field(p: FieldPlan, version: int) -> st.SearchStrategy:
    value = _value(p.shape, p.nullable, version)
    if p.field.tag is None:
        return value
    default = st.builds(p.field.factory) if p.field.factory else st.just(p.field.default)
    return default | value


@cache
def structs(cls: type[Struct], version: int) -> st.SearchStrategy:
    plan = plan_struct(cls, version)
    return st.builds(cls, **{p.name: _field(p, version) for p in (*plan.plain, *plan.tagged)})


def messages(cls: type[Message], version: int) -> st.SearchStrategy:
    return structs(cls, version)
