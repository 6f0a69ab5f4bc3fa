"""Generates the encoder of one message class in one version.

The whole message becomes one function: nested structs are inlined into the loops of their arrays,
runs of fixed-size fields become one `struct` call. What is written is byte for byte what Kafka's
generated classes write: tags only for values other than the default, in ascending order.
"""

import struct
from collections.abc import Callable
from typing import Any

from wire.codec.plan import FieldPlan, Shape, StructPlan, plan_struct, shape_of
from wire.codec.source import Source
from wire.errors import LocalProtocolError
from wire.outgoing import write_records
from wire.primitives import write_uvarint
from wire.schema import Struct

# Kafka's limit on strings (their first form had an int16 size), kept in compact strings too.
STRING_BYTES_MAX = 0x7FFF


def raise_absent(name: str, version: int) -> None:
    raise LocalProtocolError(f"{name} is set but does not exist in version {version}")


def raise_uuid(value: bytes) -> None:
    raise LocalProtocolError(f"a UUID has {len(value)} bytes instead of 16")


def write_string_size(out: bytearray, size: int) -> None:
    """The size of a compact string, when one byte may not do."""
    if size > STRING_BYTES_MAX:
        raise LocalProtocolError(f"a string of {size} bytes is longer than {STRING_BYTES_MAX}")
    write_uvarint(out, size + 1)


def pack_array(letter: str, values: list[Any]) -> bytes:
    """Fixed-size elements in one call (`struct` keeps the formats it has seen)."""
    return struct.pack(f">{len(values)}{letter}", *values)


def write_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    write_uvarint(out, len(tags))
    for tag, body in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(body))
        out += body


class WriterGenerator:
    """Emits the code that writes values of one version; `out` names the buffer written to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source(
            write_uvarint=write_uvarint,
            write_string_size=write_string_size,
            write_records=write_records,
            write_tags=write_tags,
            raise_absent=raise_absent,
            raise_uuid=raise_uuid,
        )

    def build(self, cls: type[Struct]) -> Callable[[Any, bytearray], None]:
        with self.source.block("def write(self, out):"):
            self.write_struct(plan_struct(cls, self.version), "self", "out")
        return self.source.compile("write", f"<write {cls.__name__} v{self.version}>")

    def write_struct(self, plan: StructPlan, value: str, out: str) -> None:
        self.refuse_absent(plan, value)
        run: list[FieldPlan] = []
        for p in plan.plain:
            if p.fixed:
                run.append(p)
                continue
            self.write_run(run, value, out)
            run = []
            self.write_field(p, value, out)
        self.write_run(run, value, out)
        if self.flexible:
            self.write_tagged(plan, value, out)

    def write_run(self, run: list[FieldPlan], value: str, out: str) -> None:
        if not run:
            return
        for p in run:
            if p.fixed == "16s":
                self.check_uuid(f"{value}.{p.name}")
        pack = self.source.packer("".join(p.fixed for p in run))
        arguments = ", ".join(f"{value}.{p.name}" for p in run)
        self.source.emit(f"{out} += {pack}({arguments})")

    def check_uuid(self, value: str) -> None:
        """`struct` would silently pad or cut."""
        self.source.emit(f"if len({value}) != 16: raise_uuid({value})")

    def refuse_absent(self, plan: StructPlan, value: str) -> None:
        for p in plan.absent:
            if not p.field.ignorable:
                name = f"{plan.struct.__name__}.{p.name}"
                with self.source.block(f"if {self.differs(p, f'{value}.{p.name}')}:"):
                    self.source.emit(f"raise_absent({name!r}, {self.version})")

    def differs(self, p: FieldPlan, value: str) -> str:
        """An expression: `value` is not the default of the field."""
        f = p.field
        if f.factory is list:
            return f"len({value})" if not p.optional else f"{value} is None or len({value})"
        if f.factory is not None:
            assert p.shape.struct is not None
            return self.struct_differs(p.shape.struct, value)
        if f.default is None:
            return f"{value} is not None"
        if isinstance(f.default, int | float | str | bytes):
            return f"{value} != {f.default!r}"
        return f"{value} != {self.source.bind('default', f.default)}"

    def struct_differs(self, cls: type[Struct], value: str) -> str:
        """Field by field, which is faster than making a default struct to compare with."""
        parts = []
        for f in cls.__fields__:
            shape, optional = shape_of(f.annotation)
            p = FieldPlan(f, shape, optional, optional)
            parts.append(self.differs(p, f"{value}.{f.name}"))
        return " or ".join(parts)

    def write_field(self, p: FieldPlan, value: str, out: str) -> None:
        local = self.source.fresh("v")
        self.source.emit(f"{local} = {value}.{p.name}")
        self.write_value(p.shape, local, out, nullable=p.nullable)

    def write_value(self, shape: Shape, value: str, out: str, *, nullable: bool) -> None:
        if not nullable:
            self.write_present(shape, value, out, marked=False)
            return
        with self.source.block(f"if {value} is None:"):
            self.source.emit(f"{out} += {self.null_bytes(shape)!r}")
        with self.source.block("else:"):
            self.write_present(shape, value, out, marked=True)

    def null_bytes(self, shape: Shape) -> bytes:
        if shape.struct is not None:
            return b"\xff"
        if self.flexible:
            return b"\0"
        short = shape.wire is not None and shape.wire.name == "string"
        return b"\xff\xff" if short else b"\xff\xff\xff\xff"

    def write_present(self, shape: Shape, value: str, out: str, *, marked: bool) -> None:
        emit = self.source.emit
        if shape.struct is not None:
            if marked:
                emit(f"{out}.append(1)")
            self.write_struct(plan_struct(shape.struct, self.version), value, out)
        elif shape.item is not None:
            self.write_array(shape.item, value, out)
        elif shape.wire is not None and shape.wire.fmt:
            if shape.wire.fmt == "16s":
                self.check_uuid(value)
            emit(f"{out} += {self.source.packer(shape.wire.fmt)}({value})")
        elif shape.wire is not None and shape.wire.name == "records":
            emit(f"write_records({out}, {value}, {self.flexible})")
        elif shape.wire is not None and shape.wire.name == "string":
            emit(f"{value} = {value}.encode()")
            self.write_size(value, out, "h")
            emit(f"{out} += {value}")
        else:
            self.write_size(value, out, "i")
            emit(f"{out} += {value}")

    def write_size(self, value: str, out: str, fmt: str) -> None:
        """The size of a string or bytes, or the count of an array."""
        if not self.flexible:
            self.source.emit(f"{out} += {self.source.packer(fmt)}(len({value}))")
            return
        size = self.source.fresh("n")
        self.source.emit(f"{size} = len({value})")
        self.source.emit(f"if {size} < 127: {out}.append({size} + 1)")
        if fmt == "h":
            self.source.emit(f"else: write_string_size({out}, {size})")
        else:
            self.source.emit(f"else: write_uvarint({out}, {size} + 1)")

    def write_array(self, item: Shape, value: str, out: str) -> None:
        self.write_size(value, out, "i")
        if item.wire is not None and len(item.wire.fmt) == 1:
            pack = self.source.bind("pack_array", pack_array)
            self.source.emit(f"if {value}: {out} += {pack}({item.wire.fmt!r}, {value})")
            return
        local = self.source.fresh("e")
        with self.source.block(f"for {local} in {value}:"):
            self.write_present(item, local, out, marked=False)

    def write_tagged(self, plan: StructPlan, value: str, out: str) -> None:
        emit = self.source.emit
        if not plan.tagged:
            emit(f"{out}.append(0)")
            return
        tags = self.source.fresh("tags")
        emit(f"{tags} = []")
        for p in plan.tagged:
            local, body = self.source.fresh("v"), self.source.fresh("body")
            emit(f"{local} = {value}.{p.name}")
            with self.source.block(f"if {self.differs(p, local)}:"):
                emit(f"{body} = bytearray()")
                self.write_value(p.shape, local, body, nullable=p.nullable)
                emit(f"{tags}.append(({p.field.tag}, {body}))")
        emit(f"if {tags}: write_tags({out}, {tags})")
        emit(f"else: {out}.append(0)")
