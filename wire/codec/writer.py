"""The generator of encoders, for one message class in one version.

The whole message becomes one function: nested structs are inlined into the loops of their arrays. The bytes equal those
of Kafka's generated classes: tags only for values other than the default, in ascending order.

Performance: a `struct` call costs little more for ten fields than for one. Therefore fixed-size fields, arrays of
numbers, the sizes among them and the byte for "no tags" are written by one call (a run). A compact size below 128 fits
into its byte of a run; otherwise the run is written piece by piece.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trimaran.wire.buffers.outgoing import write_records
from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.buffers.response_size import ENCODED_BYTES_MAX, raise_too_large
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.codec.plan import FieldPlan, Shape, StructPlan, plan_struct, shape_of
from trimaran.wire.codec.source import FunctionSource
from trimaran.wire.codec.writing import (
    RunPackers,
    raise_absent,
    raise_uuid,
    write_string_size,
    write_tags,
)


class Piece(NamedTuple):
    """A value of a run, or all values of an array.

    `size_writer` names the function that writes a compact size of more than one byte.
    """

    format_code: str
    value: str
    size_writer: str = ""
    is_array: bool = False


class WriterGenerator:
    """The generator of code that writes values of one version; `out` names the buffer. If `bounded`, the code raises
    after the array element with which a response has too many bytes.
    """

    def __init__(self, version: int, flexible: bool, bounded: bool = False) -> None:
        self.version = version
        self.flexible = flexible
        self.bounded = bounded
        self.source = FunctionSource(
            write_uvarint=write_uvarint,
            write_string_size=write_string_size,
            write_records=write_records,
            write_tags=write_tags,
            raise_absent=raise_absent,
            raise_uuid=raise_uuid,
            EncodedArray=EncodedArray,
            raise_too_large=raise_too_large,
        )
        self._run: tuple[Piece, ...] = ()

    def build(self, cls: type[Struct]) -> Callable[[Any, bytearray], None]:
        with self.source.block("def write(self, out):"):
            self.write_struct(plan_struct(cls, self.version), "self", "out")
            self.flush("out")
        return self.source.compile("write", f"<write {cls.__name__} v{self.version}>")

    def put(self, piece: Piece) -> None:
        """Adds a value to the run."""
        self._run = (*self._run, piece)

    def flush(self, out: str) -> None:
        """Emits the run; called before anything else is written, and at both ends of a block."""
        run, self._run = self._run, ()
        sizes = [p.value for p in run if p.size_writer]
        if not sizes:
            self.emit_pack(run, out)
            return
        with self.source.block(f"if {' and '.join(f'{size} < 128' for size in sizes)}:"):
            self.emit_pack(run, out)
        with self.source.block("else:"):
            self.emit_piecewise(run, out)

    def emit_pack(self, run: Sequence[Piece], out: str) -> None:
        values = ", ".join(f"*{p.value}" if p.is_array else p.value for p in run)
        arrays = [p for p in run if p.is_array]
        if arrays:
            template = ">" + "".join("{}" if p.is_array else p.format_code for p in run)
            packers = RunPackers(template, tuple(p.format_code for p in arrays))
            counts = ", ".join(f"len({p.value})" for p in arrays)
            self.source.emit(
                f"{out} += {self.source.bind('packers', packers)}[{counts},]({values})"
            )
        elif values == "0":
            self.source.emit(f"{out}.append(0)")
        elif run:
            pack = self.source.packer("".join(p.format_code for p in run))
            self.source.emit(f"{out} += {pack}({values})")

    def emit_piecewise(self, run: Sequence[Piece], out: str) -> None:
        fixed: list[Piece] = []
        for piece in run:
            if piece.size_writer:
                self.emit_pack(fixed, out)
                self.source.emit(f"{piece.size_writer}({out}, {piece.value})")
                fixed = []
            else:
                fixed.append(piece)
        self.emit_pack(fixed, out)

    def write_struct(self, plan: StructPlan, value: str, out: str) -> None:
        self.refuse_absent(plan, value)
        for p in plan.plain:
            self.write_field(p, value, out)
        if self.flexible:
            self.write_tagged(plan, value, out)

    def refuse_absent(self, plan: StructPlan, value: str) -> None:
        for p in plan.absent:
            if not p.field.ignorable:
                name = f"{plan.struct.__name__}.{p.name}"
                with self.source.block(f"if {self.differs(p, f'{value}.{p.name}')}:"):
                    self.source.emit(f"raise_absent({name!r}, {self.version})")

    def differs(self, p: FieldPlan, value: str) -> str:
        """Returns an expression that is true if `value` is not the default of the field."""
        f = p.field
        if f.factory is list:
            return f"len({value})" if not p.optional else f"({value} is None or len({value}))"
        default = self.source.constant(f.value_default())
        if f.factory is not None:
            assert p.shape.struct is not None
            differs = self.struct_differs(p.shape.struct, value)
            if p.optional:
                differs = f"{value} is None or {differs}"
            return f"({value} is not {default} and ({differs}))"
        return f"{value} is not None" if f.default is None else f"{value} != {default}"

    def struct_differs(self, cls: type[Struct], value: str) -> str:
        """Compares field by field, which is faster than comparing with the default struct."""
        parts = []
        for f in cls.__fields__:
            shape, optional = shape_of(f.annotation)
            p = FieldPlan(f, shape, optional, optional)
            parts.append(self.differs(p, f"{value}.{f.name}"))
        return " or ".join(parts)

    def write_field(self, p: FieldPlan, value: str, out: str) -> None:
        if p.fixed and p.fixed != "16s":
            self.put(Piece(p.fixed, f"{value}.{p.name}"))
            return
        local = self.source.fresh("v")
        self.source.emit(f"{local} = {value}.{p.name}")
        self.write_value(p.shape, local, out, nullable=p.nullable)

    def write_value(self, shape: Shape, value: str, out: str, *, nullable: bool) -> None:
        """Writes the value of the local name `value`; the name may be rebound."""
        emit = self.source.emit
        if shape.struct is not None:
            self.write_nested(shape.struct, value, out, nullable=nullable)
        elif shape.item is not None:
            self.write_array(shape.item, value, out, nullable=nullable)
        elif shape.wire is not None and shape.wire.fmt:
            if shape.wire.fmt == "16s":  # `struct` would silently pad or cut
                emit(f"if len({value}) != 16: raise_uuid({value})")
            self.put(Piece(shape.wire.fmt, value))
        elif shape.wire is not None and shape.wire.name == "records":
            self.write_records(value, out, nullable=nullable)
        else:
            assert shape.wire is not None
            is_string = shape.wire.name == "string"
            if is_string:
                text = f"{value}.encode()"
                emit(f"{value} = {f'None if {value} is None else {text}' if nullable else text}")
            self.put_size(value, "h" if is_string else "i", b"", nullable=nullable)
            self.flush(out)
            emit(f"{out} += {value}")

    def put_size(self, value: str, fmt: str, empty: object, *, nullable: bool) -> None:
        """Adds the size or count of `value` to the run; null adds its marker, and continues with `empty`."""
        emit = self.source.emit
        size = self.source.fresh("n")
        plus_1 = " + 1" * self.flexible
        if nullable:
            with self.source.block(f"if {value} is None:"):
                emit(f"{value}, {size} = {empty!r}, {-1 + self.flexible}")
            with self.source.block("else:"):
                emit(f"{size} = len({value}){plus_1}")
        else:
            emit(f"{size} = len({value}){plus_1}")
        if self.flexible:
            self.put(Piece("B", size, "write_string_size" if fmt == "h" else "write_uvarint"))
        else:
            self.put(Piece(fmt, size))

    def write_records(self, value: str, out: str, *, nullable: bool) -> None:
        write = f"write_records({out}, {value}, {self.flexible})"
        self.flush(out)
        if not nullable:
            self.source.emit(write)
            return
        with self.source.block(f"if {value} is None:"):
            null = b"\0" if self.flexible else b"\xff\xff\xff\xff"
            self.source.emit(f"{out} += {null!r}")
        with self.source.block("else:"):
            self.source.emit(write)

    def write_nested(
        self, cls: type[Struct], value: str, out: str, *, nullable: bool, tagged: bool = False
    ) -> None:
        """Writes a nested struct. Null is the int8 -1, or the unsigned varint 0 in a tagged field."""
        plan = plan_struct(cls, self.version)
        if not nullable:
            self.write_struct(plan, value, out)
            return
        self.flush(out)
        with self.source.block(f"if {value} is None:"):
            self.source.emit(f"{out}.append({0 if tagged else 255})")
        with self.source.block("else:"):
            self.put(Piece("b", "1"))
            self.write_struct(plan, value, out)
            self.flush(out)

    def write_array(self, item: Shape, value: str, out: str, *, nullable: bool) -> None:
        self.put_size(value, "i", (), nullable=nullable)
        local = self.source.fresh("e")
        if item.wire is not None and item.wire.fmt:
            if item.wire.fmt == "16s":
                with self.source.block(f"for {local} in {value}:"):
                    self.source.emit(f"if len({local}) != 16: raise_uuid({local})")
            self.put(Piece(item.wire.fmt, value, is_array=True))
            return
        self.flush(out)
        if item.struct is None:
            self.write_elements(item, value, local, out)
            return
        with self.source.block(f"if {value}.__class__ is EncodedArray:"):
            self.source.emit(f"for {local} in {value}: {out} += {local}")
            self.check(out)
        with self.source.block("else:"):
            self.write_elements(item, value, local, out)

    def write_elements(self, item: Shape, value: str, local: str, out: str) -> None:
        is_small = self.is_small(item)
        with self.source.block(f"for {local} in {value}:"):
            self.write_value(item, local, out, nullable=False)
            self.flush(out)
            if not is_small:
                self.check(out)
        if is_small:
            self.check(out)

    def check(self, out: str) -> None:
        if self.bounded:
            self.source.emit(f"if len({out}) > {ENCODED_BYTES_MAX}: raise_too_large()")

    def is_small(self, item: Shape) -> bool:
        """Whether each element takes only a few bytes: the size of the response is then checked once after the array,
        because a request bounds the number of elements.
        """
        if item.struct is None:
            return False
        plan = plan_struct(item.struct, self.version)
        return all(p.shape.wire is not None and p.shape.wire.fmt for p in plan.plain)

    def write_tagged(self, plan: StructPlan, value: str, out: str) -> None:
        if not plan.tagged:
            self.put(Piece("B", "0"))
            return
        values = [(p, self.source.fresh("v")) for p in plan.tagged]
        for p, local in values:
            self.source.emit(f"{local} = {value}.{p.name}")
        run = self._run
        with self.source.block(f"if {' or '.join(self.differs(p, v) for p, v in values)}:"):
            self.flush(out)
            self.write_tags(values, out)
        self._run = run
        with self.source.block("else:"):
            self.put(Piece("B", "0"))
            self.flush(out)

    def write_tags(self, values: list[tuple[FieldPlan, str]], out: str) -> None:
        emit = self.source.emit
        tags = self.source.fresh("tags")
        emit(f"{tags} = []")
        for p, local in values:
            body = self.source.fresh("body")
            with self.source.block(f"if {self.differs(p, local)}:"):
                emit(f"{body} = bytearray()")
                if p.shape.struct is not None:
                    self.write_nested(p.shape.struct, local, body, nullable=p.nullable, tagged=True)
                else:
                    self.write_value(p.shape, local, body, nullable=p.nullable)
                self.flush(body)
                emit(f"{tags}.append(({p.field.tag}, {body}))")
        emit(f"write_tags({out}, {tags})")
