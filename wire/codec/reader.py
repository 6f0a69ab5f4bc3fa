"""The generator of decoders, for one message class in one version.

Every size is checked against the available bytes before memory of that size is allocated, so a decoder needs no more
memory than a multiple of its input (`trimaran.wire.schema.DecodeBudget`). Malformed bytes raise in `struct`, indexing
or UTF-8 decoding, and `Message.decode` maps the errors.

Performance: a `struct` call costs little more for ten fields than for one. Therefore fixed-size fields, the first byte
of the size after them and the byte that counts tags are read by one call (a run); short arrays of numbers begin the run
after them; an array of fixed-size structs is read by one `iter_unpack`.
"""

from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple

from trimaran.wire.buffers.primitives import read_uvarint
from trimaran.wire.codec.declarations import DeclaredMessage
from trimaran.wire.codec.plan import (
    FieldPlan,
    Shape,
    StructPlan,
    has_records,
    least_size,
    plan_struct,
)
from trimaran.wire.codec.reading import (
    SHORT_ARRAY_MAX,
    ArrayUnpackers,
    bad_size,
    bad_tag,
    read_long_array,
    read_tag,
    skip_tags,
)
from trimaran.wire.codec.source import FunctionSource, fixed_size
from trimaran.wire.codec.writing import STRING_BYTES_MAX

# The minimum count at which `iter_unpack` over an array of fixed-size structs is faster than reading each.
_STRIDE_COUNT_MIN = 4


class HeadArray(NamedTuple):
    """An array of numbers whose count has been read, at least its first byte."""

    item: str
    size: str
    target: str
    name: str
    nullable: bool


class ReaderGenerator:
    """The generator of code that reads values of one version from `buf` at `pos`."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = FunctionSource(
            new=object.__new__,
            repeat=repeat,
            read_uvarint=read_uvarint,
            read_long_array=read_long_array,
            bad_size=bad_size,
            bad_tag=bad_tag,
            read_tag=read_tag,
            skip_tags=skip_tags,
        )
        self._views: bool
        self._end = "end"
        # The run: an optional array at its start, then fixed-size values.
        self._array: HeadArray | None = None
        self._format_codes = ""
        self._targets: list[str] = []

    def build(self, cls: type[DeclaredMessage]) -> Callable[[Any, int, int], tuple[Any, int, int]]:
        emit = self.source.emit
        plan = plan_struct(cls, self.version)
        self._views = has_records(plan, self.version)
        with self.source.block("def read(buf, left, tags_max):"):
            # Bytes index faster than views, but record fields must stay views of the frame.
            emit(
                f"buf = {'memoryview' if self._views else 'bytes'}(buf)",
                "pos = 0",
                "end = len(buf)",
            )
            self.read_struct(plan, "self")
            self.flush()
            emit("return self, pos, left")
        return self.source.compile("read", f"<read {cls.__name__} v{self.version}>")

    def take(self, format_code: str, target: str) -> None:
        """Adds a fixed-size value to the run."""
        self._format_codes += format_code
        self._targets.append(target)

    def flush(self) -> None:
        """Emits the run; called before its values or `pos` are used, and at both ends of a block."""
        format_codes, targets = self._format_codes, self._targets
        array, self._array = self._array, None
        self._format_codes, self._targets = "", []
        if array is not None:
            self.flush_array(array, format_codes, targets)
        elif format_codes:
            self.emit_unpack(format_codes, targets)

    def emit_unpack(self, format_codes: str, targets: list[str]) -> None:
        emit = self.source.emit
        if format_codes == "B":
            emit(f"{targets[0]} = buf[pos]")
        else:
            comma = "," if len(targets) == 1 else ""
            emit(f"{', '.join(targets)}{comma} = {self.source.unpacker(format_codes)}(buf, pos)")
        emit(f"pos += {fixed_size(format_codes)}")

    def flush_array(self, array: HeadArray, tail: str, targets: list[str]) -> None:
        emit, block = self.source.emit, self.source.block
        item, count, target, name, nullable = array
        size = f"{count} * {fixed_size(item)}"
        with block(f"if 0 <= {count} <= {SHORT_ARRAY_MAX} <= left:"):
            table = self.source.bind("arrays", ArrayUnpackers(item, tail))
            emit(
                f"{', '.join((f'*{target}', *targets))}, = {table}[{count}](buf, pos)",
                f"pos += {size} + {fixed_size(tail)}",
                f"left -= {count}",
            )
        with block("else:"):
            self.resolve_size(count)
            if nullable:
                with block(f"if {count} == -1:"):
                    emit(f"{target} = None")
            with block(f"{'el' * nullable}if {count} > left:"):
                emit(f"bad_size({name!r}, {count})")
            with block("else:"):
                read = f"read_long_array({name!r}, {item!r}, {count}, buf, pos, {self._end})"
                emit(f"{target} = {read}", f"pos += {size}", f"left -= {count}")
            if tail:
                self.emit_unpack(tail, targets)

    def read_struct(self, plan: StructPlan, target: str) -> None:
        cls = self.source.bind("Struct", plan.struct)
        self.source.emit(f"{target} = new({cls})")
        self.read_fields(plan, target)

    def read_fields(self, plan: StructPlan, target: str) -> None:
        self.set_defaults(plan, target)
        for p in plan.plain:
            self.read_value(p.shape, f"{target}.{p.name}", plan.struct, nullable=p.nullable)
        if self.flexible:
            self.read_tagged(plan, target)

    def set_defaults(self, plan: StructPlan, target: str) -> None:
        for p in (*plan.absent, *plan.tagged):
            self.source.emit(f"{target}.{p.name} = {self.default(p)}")

    def default(self, p: FieldPlan) -> str:
        if p.field.factory is list:
            return "[]"
        return self.source.constant(p.field.value_default())

    def read_value(self, shape: Shape, target: str, owner: type, *, nullable: bool) -> None:
        if shape.wire is not None and shape.wire.fmt:
            self.take(shape.wire.fmt, target)
        elif shape.struct is not None:
            self.read_nested(shape.struct, target, nullable=nullable)
        elif shape.item is not None:
            self.read_array(shape.item, target, owner, nullable=nullable)
        else:
            self.read_sized(shape, target, owner, nullable=nullable)

    def read_nested(self, cls: type, target: str, *, nullable: bool, tagged: bool = False) -> None:
        """Reads a nested struct. Null is the int8 -1, or the unsigned varint 0 in a tagged field."""
        emit, block = self.source.emit, self.source.block
        local = self.source.fresh("o")
        plan = plan_struct(cls, self.version)
        if not nullable:
            self.read_struct(plan, local)
            emit(f"{target} = {local}")
            return
        mark = self.source.fresh("mark")
        self.take("b", mark)
        self.flush()
        with block(f"if {mark} < {int(tagged)}:"):
            emit(f"{target} = None")
        with block("else:"):
            self.read_struct(plan, local)
            self.flush()
            emit(f"{target} = {local}")

    def read_size(self, fmt: str) -> str:
        """Reads a size or count; null is -1. A compact size above 126 must still be resolved."""
        size = self.source.fresh("n")
        self.take("B" if self.flexible else fmt, size)
        self.flush()
        if self.flexible:
            self.source.emit(f"{size} -= 1")
        return size

    def resolve_size(self, size: str) -> None:
        """Reads the remaining bytes of a compact size that has more than one."""
        if not self.flexible:
            return
        emit, block = self.source.emit, self.source.block
        with block(f"if {size} > 126:"):
            with block("if buf[pos] < 128:"):
                emit(f"{size} += (buf[pos] << 7) - 128", "pos += 1")
            with block("else:"):
                emit(f"{size}, pos = read_uvarint(buf, pos - 1)", f"{size} -= 1")

    def read_sized(self, shape: Shape, target: str, owner: type, *, nullable: bool) -> None:
        """Reads a string, bytes or records."""
        assert shape.wire is not None
        emit, block = self.source.emit, self.source.block
        is_string = shape.wire.name == "string"
        name = name_of(owner, target)
        size, stop = self.read_size("h" if is_string else "i"), self.source.fresh("stop")
        self.resolve_size(size)
        emit(f"{stop} = pos + {size}")
        if nullable:
            with block(f"if {size} == -1:"):
                emit(f"{target} = None")
        limit = f"{size} < 0 or {stop} > {self._end}"
        if is_string and self.flexible:
            limit += f" or {size} > {STRING_BYTES_MAX}"
        with block(f"{'el' * nullable}if {limit}:"):
            emit(f"bad_size({name!r}, {size})")
        with block("else:"):
            emit(
                f"{target} = {self.slice(shape.wire.name, f'buf[pos:{stop}]')}",
                f"pos = {stop}",
            )

    def slice(self, kind: str, value: str) -> str:
        if kind == "string":
            return f"str({value}, 'utf-8')" if self._views else f"{value}.decode()"
        return f"bytes({value})" if kind == "bytes" and self._views else value

    def read_array(self, item: Shape, target: str, owner: type, *, nullable: bool) -> None:
        emit, block = self.source.emit, self.source.block
        name = name_of(owner, target)
        size = self.read_size("i")
        if item.wire is not None and item.wire.fmt:
            self._array = HeadArray(item.wire.fmt, size, target, name, nullable)
            return
        self.resolve_size(size)
        if nullable:
            with block(f"if {size} == -1:"):
                emit(f"{target} = None")
        least = least_size(item, self.version, self.flexible)
        check = f"{size} < 0 or {size} * {least} > {self._end} - pos or {size} > left"
        with block(f"{'el' * nullable}if {check}:"):
            emit(f"bad_size({name!r}, {size})")
        with block("else:"):
            emit(f"left -= {size}")
            self.read_items(item, target, owner, size)

    def read_items(self, item: Shape, target: str, owner: type, size: str) -> None:
        if item.struct is None:
            self.read_each(item, target, owner, size)
            return
        plan = plan_struct(item.struct, self.version)
        format_codes = plan.fixed_format_codes
        if format_codes is None:
            self.read_each(item, target, owner, size)
            return
        stride = fixed_size(format_codes) + self.flexible
        fits = f"{size} >= {_STRIDE_COUNT_MIN}"
        if self.flexible:
            # If no element has tags, all have the size of the first.
            fits += f" and not any(buf[pos + {stride - 1}:pos + {size} * {stride}:{stride}])"
        with self.source.block(f"if {fits}:"):
            self.read_strided(plan, format_codes, target, size)
        with self.source.block("else:"):
            self.read_each(item, target, owner, size)

    def read_strided(self, plan: StructPlan, format_codes: str, target: str, size: str) -> None:
        """Reads an array of structs of equal length that lies wholly in the buffer."""
        emit = self.source.emit
        element, stop = self.source.fresh("e"), self.source.fresh("stop")
        cls = self.source.bind("Struct", plan.struct)
        targets = [f"{element}.{p.name}" for p in plan.plain]
        if self.flexible:
            format_codes += "B"
            targets.append("_")
        iterate = self.source.iterator(format_codes)
        emit(
            f"{stop} = pos + {size} * {fixed_size(format_codes)}",
            f"{target} = list(map(new, repeat({cls}, {size})))",
        )
        head = (
            f"for {element}, ({', '.join(targets)},) in zip({target}, {iterate}(buf[pos:{stop}])):"
        )
        with self.source.block(head):
            self.set_defaults(plan, element)
        emit(f"pos = {stop}")

    def read_each(self, item: Shape, target: str, owner: type, size: str) -> None:
        emit = self.source.emit
        items, local = self.source.fresh("items"), self.source.fresh("e")
        emit(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({size}):"):
            if item.struct is not None:
                self.read_struct(plan_struct(item.struct, self.version), local)
            else:
                self.read_value(item, local, owner, nullable=False)
            self.flush()
            emit(f"{items}.append({local})")

    def read_tagged(self, plan: StructPlan, target: str) -> None:
        count = self.source.fresh("tags")
        self.take("B", count)
        self.flush()
        name = plan.struct.__name__
        with self.source.block(f"if {count}:"):
            if not plan.tagged:
                skip = f"skip_tags({name!r}, {plan.refused!r}, buf, pos - 1, {self._end}, min(left, tags_max))"
                self.source.emit(f"pos, {count} = {skip}", f"left -= {count}")
            else:
                self.read_tags(plan, target, count, plan.refused)

    def read_tags(
        self, plan: StructPlan, target: str, count: str, refused: tuple[int, ...]
    ) -> None:
        emit, block = self.source.emit, self.source.block
        name = plan.struct.__name__
        outer, end = self._end, self.source.fresh("end")
        tag, last = self.source.fresh("tag"), self.source.fresh("last")
        emit(
            f"{count}, pos = read_uvarint(buf, pos - 1)",
            f"if {count} > tags_max or {count} > left: bad_size({name + ' tags'!r}, {count})",
            f"left -= {count}",
            f"{last} = -1",
        )
        with block(f"for _ in range({count}):"):
            emit(
                f"{tag}, pos, {end} = read_tag({name!r}, {refused!r}, buf, pos, {last}, {outer})",
                f"{last} = {tag}",
            )
            self._end = end
            for p in plan.tagged:
                with block(f"if {tag} == {p.field.tag}:"):
                    value = f"{target}.{p.name}"
                    if p.shape.struct is not None:
                        self.read_nested(p.shape.struct, value, nullable=p.nullable, tagged=True)
                    else:
                        self.read_value(p.shape, value, plan.struct, nullable=p.nullable)
                    self.flush()
                    emit(f"if pos != {end}: bad_tag({name!r}, {tag})")
            emit(f"pos = {end}")
            self._end = outer


def name_of(owner: type, target: str) -> str:
    """Returns the name for errors of the value that is read into `target`."""
    return f"{owner.__name__}.{target.partition('.')[2]}"
