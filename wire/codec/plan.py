"""The wire layout of one version of a struct, derived from its declaration.

Source: the rules of Kafka's message generator (`MessageDataGenerator`, `FieldSpec`).
"""

from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from trimaran.wire.codec.declarations import Field, Struct, Wire


class Shape(NamedTuple):
    """A type on the wire: a primitive, a struct, or an array of `item`."""

    wire: Wire | None = None
    struct: type[Struct] | None = None
    item: "Shape | None" = None


class FieldPlan(NamedTuple):
    """A field in one version."""

    field: Field
    shape: Shape
    optional: bool
    """The annotation allows None (in some version)."""
    nullable: bool
    """Null may be written in this version."""

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def fixed(self) -> str:
        """Returns the `struct` format code of a fixed-size field; otherwise an empty string."""
        return self.shape.wire.fmt if self.shape.wire else ""


class StructPlan(NamedTuple):
    """The fields of a struct in one version: the untagged ones in wire order, the tagged ones by tag, and the absent
    ones.
    """

    struct: type[Struct]
    plain: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]
    absent: tuple[FieldPlan, ...]

    @property
    def refused(self) -> tuple[int, ...]:
        """Returns the tags of other versions, which this version must not contain."""
        known = {p.field.tag for p in self.tagged}
        return tuple({p.field.tag for p in self.absent if p.field.tag is not None} - known)

    @property
    def fixed_format_codes(self) -> str | None:
        """Returns the `struct` format codes of all untagged fields, if their size is fixed."""
        if not self.plain or not all(p.fixed for p in self.plain):
            return None
        return "".join(p.fixed for p in self.plain)


def shape_of(annotation: Any) -> tuple[Shape, bool]:
    """Returns the shape that an annotation names, and whether it allows None."""
    if get_origin(annotation) is Annotated:
        return Shape(wire=annotation.__metadata__[0]), False
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return Shape(item=shape_of(item)[0]), False
    if isinstance(annotation, type):
        return Shape(struct=annotation), False
    (inner,) = (a for a in get_args(annotation) if a is not NoneType)
    return shape_of(inner)[0], True


def plan_struct(cls: type[Struct], version: int) -> StructPlan:
    plans = [_plan_field(f, version) for f in cls.__fields__]
    present = [p for p in plans if version in p.field.versions]
    tagged = [(p.field.tag, p) for p in present if p.field.tag is not None]
    return StructPlan(
        cls,
        tuple(p for p in present if p.field.tag is None),
        tuple(p for _, p in sorted(tagged)),
        tuple(p for p in plans if version not in p.field.versions),
    )


def _plan_field(f: Field, version: int) -> FieldPlan:
    shape, optional = shape_of(f.annotation)
    nullable = optional if f.nullable is None else version in f.nullable
    return FieldPlan(f, shape, optional, nullable)


def size_min(shape: Shape, nullable: bool, version: int, flexible: bool) -> int:
    """Returns the minimum size of a value of this shape in bytes, which limits the count of an array."""
    if shape.wire is not None:
        if shape.wire.fmt:
            return _FIXED_SIZES[shape.wire.fmt]
        if flexible:
            return 1
        return 2 if shape.wire.name == "string" else 4
    if shape.item is not None:
        return 1 if flexible else 4
    assert shape.struct is not None
    if nullable:
        return 1
    plan = plan_struct(shape.struct, version)
    total = sum(size_min(p.shape, p.nullable, version, flexible) for p in plan.plain)
    return total + flexible


def least_size(item: Shape, version: int, flexible: bool) -> int:
    """Returns the minimum size of an item of an array in bytes, at least one, so that the remaining bytes bound the
    count.
    """
    return max(1, size_min(item, False, version, flexible))


def has_records(plan: StructPlan, version: int) -> bool:
    """Whether the shape contains record batches at any depth."""
    return any(_shape_has_records(p.shape, version) for p in (*plan.plain, *plan.tagged))


def _shape_has_records(shape: Shape, version: int) -> bool:
    if shape.item is not None:
        return _shape_has_records(shape.item, version)
    if shape.struct is not None:
        return has_records(plan_struct(shape.struct, version), version)
    return shape.wire is not None and shape.wire.name == "records"


_FIXED_SIZES = {"b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
