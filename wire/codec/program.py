"""The compiler of the programs with which `trimaran.wire.codec.native` reads one version of a message."""

from collections.abc import Iterator

from trimaran.wire.codec.declarations import DeclaredMessage, Reader, Struct
from trimaran.wire.codec.native import Decoder, Op, Program
from trimaran.wire.codec.plan import FieldPlan, Shape, StructPlan, least_size, plan_struct

_FORMAT_CODES = {"16s": "u", "string": "s", "bytes": "y", "records": "r"}


def build_decoder(cls: type[DeclaredMessage], version: int, refused: Reader) -> Decoder:
    """Returns the decoder of `version`; bytes that it refuses are passed to `refused`."""
    flexible = version in cls.FLEXIBLE
    return Decoder(ProgramWriter(version, flexible).program(cls), flexible, refused)


class ProgramWriter:
    """Writes a program by following a plan, like the generator of readers."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def program(self, struct: type[Struct]) -> Program:
        plan = plan_struct(struct, self.version)
        tagged = [self.field(plan, p) for p in plan.tagged]
        ops = [*self.defaults(plan), *(self.field(plan, p) for p in plan.plain)]
        return Program(struct, ops, tagged, plan.refused)

    def defaults(self, plan: StructPlan) -> Iterator[Op]:
        for p in (*plan.absent, *plan.tagged):
            slot = getattr(plan.struct, p.name)
            if p.field.factory is list:
                yield Op("l", slot)
            else:
                yield Op("=", slot, value=p.field.value_default())

    def field(self, plan: StructPlan, p: FieldPlan) -> Op:
        tag = -1 if p.field.tag is None else p.field.tag
        return self.op(p.shape, getattr(plan.struct, p.name), nullable=p.nullable, tag=tag)

    def op(self, shape: Shape, slot: object, *, nullable: bool, tag: int = -1) -> Op:
        if shape.wire is not None:
            kind = shape.wire.fmt or shape.wire.name
            return Op(_FORMAT_CODES.get(kind, kind), slot, nullable=nullable, tag=tag)
        if shape.struct is not None:
            fields = self.program(shape.struct)
            return Op("{", slot, nullable=nullable, tag=tag, program=fields)
        assert shape.item is not None
        item = self.op(shape.item, None, nullable=False)
        least = least_size(shape.item, self.version, self.flexible)
        return Op("[", slot, nullable=nullable, tag=tag, item=item, least=least)
