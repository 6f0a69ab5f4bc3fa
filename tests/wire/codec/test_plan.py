"""The layout of a version according to its declaration: fields, tags, nullability, least sizes, record batches."""

import pytest

from trimaran.wire.codec.declarations import (
    Field,
    Struct,
    Versions,
    _parse_versions,
    boolean,
    data,
    field,
    float64,
    int8,
    int16,
    int32,
    record_batches,
    string,
    uint16,
    uint32,
    uuid,
)
from trimaran.wire.codec.plan import (
    FieldPlan,
    Shape,
    has_records,
    least_size,
    plan_struct,
    shape_of,
    size_min,
)


class Empty(Struct):
    pass


class Inner(Struct):
    number: int32
    name: string


class Outer(Struct):
    always: int8
    later: int16 = field("1+", default=0)
    second: string = field("1+", default="", tag=1)
    first: int8 = field("2+", default=0, tag=0)
    gone: int8 = field("0-1", default=0)
    old: int8 = field("1", default=0, tag=3)
    again: string = field("2+", default="", tag=3)
    maybe: string | None = None
    partly: string | None = field("0+", default=None, nullable="2+")


def names(plans):
    return [plan.name for plan in plans]


@pytest.mark.parametrize(
    ("version", "plain", "tagged", "absent", "refused"),
    [
        (
            0,
            ["always", "gone", "maybe", "partly"],
            [],
            ["later", "second", "first", "old", "again"],
            {0, 1, 3},
        ),
        (
            1,
            ["always", "later", "gone", "maybe", "partly"],
            ["second", "old"],
            ["first", "again"],
            {0},
        ),
        (2, ["always", "later", "maybe", "partly"], ["first", "second", "again"], ["gone", "old"], set()),
    ],
)  # fmt: skip
def test_version_has_its_declared_fields(version, plain, tagged, absent, refused):
    plan = plan_struct(Outer, version)
    assert plan.struct is Outer
    assert (names(plan.plain), names(plan.tagged)) == (plain, tagged)
    assert names(plan.absent) == absent
    assert set(plan.refused) == refused


@pytest.mark.parametrize("version", [0, 1, 2])
def test_null_is_allowed_where_declared(version):
    found = {
        plan.name: (plan.optional, plan.nullable) for plan in plan_struct(Outer, version).plain
    }
    assert found.pop("maybe") == (True, True)
    assert found.pop("partly") == (True, version == 2)
    assert set(found.values()) == {(False, False)}


@pytest.mark.parametrize(
    ("annotation", "shape", "optional"),
    [
        (Inner, Shape(struct=Inner), False),
        (Inner | None, Shape(struct=Inner), True),
        (list[Inner], Shape(item=Shape(struct=Inner)), False),
        (list[Inner] | None, Shape(item=Shape(struct=Inner)), True),
        (string, Shape(wire=string.__metadata__[0]), False),
        (string | None, Shape(wire=string.__metadata__[0]), True),
        (list[int8], Shape(item=Shape(wire=int8.__metadata__[0])), False),
    ],
    ids=str,
)
def test_each_annotation_has_its_shape(annotation, shape, optional):
    assert shape_of(annotation) == (shape, optional)


@pytest.mark.parametrize(
    ("annotation", "old", "flexible"),
    [
        (int8, 1, 1),
        (boolean, 1, 1),
        (int16, 2, 2),
        (uint16, 2, 2),
        (int32, 4, 4),
        (uint32, 4, 4),
        (float64, 8, 8),
        (uuid, 16, 16),
        (string, 2, 1),
        (data, 4, 1),
        (record_batches, 4, 1),
        (list[uuid], 4, 1),
        (list[Inner], 4, 1),
        (Inner, 6, 6),
        (Inner | None, 1, 1),
        (Empty, 0, 1),
    ],
    ids=str,
)
def test_each_type_has_its_least_size(annotation, old, flexible):
    shape, nullable = shape_of(annotation)
    assert size_min(shape, nullable, 0, False) == old
    assert size_min(shape, nullable, 0, True) == flexible
    if not nullable:
        assert least_size(shape, 0, False) == max(1, old)
        assert least_size(shape, 0, True) == flexible


class Numbers(Struct):
    one: int8
    other: uuid
    tag: string = field("1+", default="", tag=0)


@pytest.mark.parametrize(("struct", "codes"), [(Numbers, "b16s"), (Empty, None), (Inner, None)])
def test_fixed_size_types_have_format_codes(struct, codes):
    assert plan_struct(struct, 1).fixed_format_codes == codes


class Records(Struct):
    records: record_batches | None


class InArray(Struct):
    name: string
    elements: list[Records]


class InTag(Struct):
    tag: Records | None = field("1+", default=None, tag=0)


@pytest.mark.parametrize(
    ("struct", "version", "found"),
    [
        (Records, 0, True),
        (InArray, 0, True),
        (InTag, 1, True),
        (InTag, 0, False),
        (Outer, 1, False),
        (Inner, 0, False),
    ],
)
def test_records_are_found_at_any_depth(struct, version, found):
    assert has_records(plan_struct(struct, version), version) is found


def test_plan_of_field_names_its_format():
    assert [plan.fixed for plan in plan_struct(Inner, 0).plain] == ["i", ""]
    (plan,) = plan_struct(InArray, 0).plain[1:]
    assert isinstance(plan, FieldPlan)
    assert plan.fixed == ""


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("211-215", (211, 212, 215), (210, 216)),
        ("217", (217,), (216, 218)),
        ("219+", (219, 220, 32_767), (218, "219")),
        ("none", (), (-1, 0, 1, 2)),
    ],
)
def test_text_of_versions_is_parsed(text, inside, outside):
    _parse_versions.cache_clear()  # cases that messages declare
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert all(version not in versions for version in outside)


def test_declaration_becomes_fields_and_constructor():
    class Declared(Struct):
        required: int8
        plain: int16 = 3
        later: string | None = field("2+", default="x", nullable="3+", tag=4, ignorable=True)
        many: list[int8] = field(factory=list)
        inner: Empty = field(factory=Empty)

    class Twin(Struct):
        required: int8

    required, plain, later, many, inner = Declared.__fields__
    assert required.required
    assert not any(each.required for each in (plain, later, many, inner))
    assert plain[2:7] == (Versions(0, 32_767), None, None, False, 3)
    assert later == Field(
        *("later", Declared.__annotations__["later"], Versions(2, 32_767), Versions(3, 32_767)),
        *(4, True, "x", None),
    )
    made = Declared(required=1)
    assert (made.required, made.plain, made.later, made.many) == (1, 3, "x", [])
    assert made.inner == Empty()
    assert made.inner.__class__ is Empty
    assert made.many is not Declared(required=1).many
    with pytest.raises(AttributeError, match="unknown"):
        made.unknown = 1
    assert Declared(required=1, many=None).many is None
    assert Declared(plain=2, required=1, many=[4]).replace(later=None, inner=made.inner) == (
        Declared(plain=2, required=1, many=[4], later=None)
    )
    assert made != Declared(required=1, many=[4])
    assert Twin(required=1) != made
    assert made != Twin(required=1)
    assert made != "another kind"
    with pytest.raises(TypeError, match=r"Declared\.__init__\(\) missing .* 'required'"):
        Declared()
    with pytest.raises(AttributeError, match="messages share"):
        Declared(required=1).inner.added = 1
