"""Generates the decoder of one message class in one version.

Every size is checked against the bytes that are there before anything is made from it, so a
decoder needs no more memory than a multiple of its input (reasons beside the limits). What slips
through to `struct`, indexing or UTF-8 raises there, and `Message.decode` maps it.
"""

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from wire.codec.plan import FieldPlan, Shape, StructPlan, plan_struct, size_min
from wire.codec.source import Source
from wire.codec.writer import STRING_BYTES_MAX
from wire.errors import RemoteProtocolError
from wire.primitives import read_uvarint
from wire.schema import Message

# Elements of all arrays in one message. The largest honest message is the Metadata of 50,000
# partitions with 3 replicas: some 400,000. An element costs 32 to 700 bytes of objects, so this
# bounds a request at some 300 MB, however small its elements are on the wire.
ELEMENTS_MAX = 1_000_000

# Tagged fields of one struct. Kafka 4.3 declares 5 at most; 20 million took brokers down.
TAGS_MAX = 128


def bad_size(name: str, size: int) -> NoReturn:
    if size == -1:
        raise RemoteProtocolError(f"{name} is null")
    raise RemoteProtocolError(f"{name} has size {size}, which is more than there is or allowed")


def bad_tag(name: str, tag: int) -> NoReturn:
    raise RemoteProtocolError(f"{name} has tag {tag} out of place, or with a wrong size")


class ReaderGenerator:
    """Emits the code that reads values of one version from `buf` at `pos`."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source(
            new=object.__new__,
            read_uvarint=read_uvarint,
            bad_size=bad_size,
            bad_tag=bad_tag,
        )
        self._end = "end"

    def build(self, cls: type[Message]) -> Callable[[Any], tuple[Any, int]]:
        emit = self.source.emit
        plan = plan_struct(cls, self.version)
        with self.source.block("def read(buf):"):
            # Bytes index faster than views, but record fields must stay views of the frame.
            emit(f"buf = {'memoryview' if has_records(plan, self.version) else 'bytes'}(buf)")
            emit("pos = 0")
            emit("end = len(buf)")
            emit(f"left = {ELEMENTS_MAX}")
            self.read_struct(plan, "self")
            emit("return self, pos")
        return self.source.compile("read", f"<read {cls.__name__} v{self.version}>")

    def read_struct(self, plan: StructPlan, target: str) -> None:
        cls = self.source.bind("Struct", plan.struct)
        self.source.emit(f"{target} = new({cls})")
        for p in (*plan.absent, *plan.tagged):
            self.set_default(p, f"{target}.{p.name}")
        run: list[FieldPlan] = []
        for p in plan.plain:
            if p.fixed:
                run.append(p)
                continue
            self.read_run(run, target)
            run = []
            self.read_value(p.shape, f"{target}.{p.name}", plan.struct, nullable=p.nullable)
        self.read_run(run, target)
        if self.flexible:
            self.read_tagged(plan, target)

    def set_default(self, p: FieldPlan, target: str) -> None:
        f = p.field
        if f.factory is list:
            value = "[]"
        elif f.factory is not None:
            value = f"{self.source.bind('factory', f.factory)}()"
        elif f.default is None or isinstance(f.default, int | float | str | bytes):
            value = repr(f.default)
        else:
            value = self.source.bind("default", f.default)
        self.source.emit(f"{target} = {value}")

    def read_run(self, run: list[FieldPlan], target: str) -> None:
        if not run:
            return
        fmt = "".join(p.fixed for p in run)
        targets = ", ".join(f"{target}.{p.name}" for p in run)
        comma = "," if len(run) == 1 else ""
        self.source.emit(f"{targets}{comma} = {self.source.unpacker(fmt)}(buf, pos)")
        self.source.emit(f"pos += {fixed_size(fmt)}")

    def read_value(self, shape: Shape, target: str, owner: type, *, nullable: bool) -> None:
        emit = self.source.emit
        if shape.wire is not None and shape.wire.fmt:
            emit(f"{target}, = {self.source.unpacker(shape.wire.fmt)}(buf, pos)")
            emit(f"pos += {fixed_size(shape.wire.fmt)}")
        elif shape.struct is not None:
            self.read_nested(shape.struct, target, nullable=nullable)
        elif shape.item is not None:
            self.read_array(shape.item, target, owner, nullable=nullable)
        else:
            self.read_sized(shape, target, owner, nullable=nullable)

    def read_nested(self, cls: type, target: str, *, nullable: bool) -> None:
        local = self.source.fresh("o")
        plan = plan_struct(cls, self.version)
        if not nullable:
            self.read_struct(plan, local)
            self.source.emit(f"{target} = {local}")
            return
        self.source.emit("pos += 1")
        with self.source.block("if buf[pos - 1] > 127:"):
            self.source.emit(f"{target} = None")
        with self.source.block("else:"):
            self.read_struct(plan, local)
            self.source.emit(f"{target} = {local}")

    def read_size(self, fmt: str) -> str:
        """A size or count; null is -1."""
        size = self.source.fresh("n")
        emit = self.source.emit
        if self.flexible:
            emit(f"{size} = buf[pos] - 1")
            emit("pos += 1")
            with self.source.block(f"if {size} > 126:"):
                emit(f"{size}, pos = read_uvarint(buf, pos - 1)")
                emit(f"{size} -= 1")
        else:
            emit(f"{size}, = {self.source.unpacker(fmt)}(buf, pos)")
            emit(f"pos += {fixed_size(fmt)}")
        return size

    def read_sized(self, shape: Shape, target: str, owner: type, *, nullable: bool) -> None:
        """A string, bytes or records."""
        assert shape.wire is not None
        is_string = shape.wire.name == "string"
        size = self.read_size("h" if is_string else "i")
        limit = f"{size} > {self._end} - pos"
        if is_string and self.flexible:
            limit += f" or {size} > {STRING_BYTES_MAX}"
        name = f"{owner.__name__}.{target.partition('.')[2]}"
        if nullable:
            with self.source.block(f"if {size} == -1:"):
                self.source.emit(f"{target} = None")
        with self.source.block(f"{'el' * nullable}if {size} < 0 or {limit}:"):
            self.source.emit(f"bad_size({name!r}, {size})")
        with self.source.block("else:"):
            value = f"buf[pos:pos + {size}]"
            if is_string:
                value = f"str({value}, 'utf-8')"
            elif shape.wire.name == "bytes":
                value = f"bytes({value})"
            self.source.emit(f"{target} = {value}")
            self.source.emit(f"pos += {size}")

    def read_array(self, item: Shape, target: str, owner: type, *, nullable: bool) -> None:
        emit = self.source.emit
        size = self.read_size("i")
        least = max(1, size_min(item, False, self.version, self.flexible))
        name = f"{owner.__name__}.{target.partition('.')[2]}"
        if nullable:
            with self.source.block(f"if {size} == -1:"):
                emit(f"{target} = None")
        check = f"{size} < 0 or {size} * {least} > {self._end} - pos or {size} > left"
        with self.source.block(f"{'el' * nullable}if {check}:"):
            emit(f"bad_size({name!r}, {size})")
        with self.source.block("else:"):
            emit(f"left -= {size}")
            self.read_items(item, target, owner, size)

    def read_items(self, item: Shape, target: str, owner: type, size: str) -> None:
        emit = self.source.emit
        if item.wire is not None and len(item.wire.fmt) == 1:
            unpack = self.source.bind("unpack_array", unpack_array)
            emit(f"{target} = {unpack}({item.wire.fmt!r}, {size}, buf, pos)")
            emit(f"pos += {size} * {fixed_size(item.wire.fmt)}")
            return
        items, local = self.source.fresh("items"), self.source.fresh("e")
        emit(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({size}):"):
            if item.struct is not None:
                self.read_struct(plan_struct(item.struct, self.version), local)
            else:
                self.read_value(item, local, owner, nullable=False)
            emit(f"{items}.append({local})")

    def read_tagged(self, plan: StructPlan, target: str) -> None:
        emit = self.source.emit
        emit("pos += 1")
        with self.source.block("if buf[pos - 1]:"):
            emit("pos -= 1")
            self.read_tags(plan, target)

    def read_tags(self, plan: StructPlan, target: str) -> None:
        emit, block = self.source.emit, self.source.block
        name = plan.struct.__name__
        outer, end = self._end, self.source.fresh("end")
        count, tag, last = (self.source.fresh(stem) for stem in ("count", "tag", "last"))
        emit(f"{count}, pos = read_uvarint(buf, pos)")
        emit(f"if {count} > {TAGS_MAX}: bad_size({name + ' tags'!r}, {count})")
        emit(f"{last} = -1")
        with block(f"for _ in range({count}):"):
            emit(f"{tag}, pos = read_uvarint(buf, pos)")
            emit(f"{end}, pos = read_uvarint(buf, pos)")
            emit(f"{end} += pos")
            emit(f"if {tag} <= {last} or {end} > {outer}: bad_tag({name!r}, {tag})")
            emit(f"{last} = {tag}")
            self._end = end
            for p in plan.tagged:
                with block(f"if {tag} == {p.field.tag}:"):
                    self.read_value(p.shape, f"{target}.{p.name}", plan.struct, nullable=p.nullable)
                    emit(f"if pos != {end}: bad_tag({name!r}, {tag})")
            for p in plan.absent:
                if p.field.tag is not None:
                    emit(f"if {tag} == {p.field.tag}: bad_tag({name!r}, {tag})")
            emit(f"pos = {end}")
            self._end = outer


def unpack_array(letter: str, count: int, buf: bytes | memoryview, pos: int) -> list[Any]:
    return list(struct.unpack_from(f">{count}{letter}", buf, pos))


def fixed_size(fmt: str) -> int:
    return struct.calcsize(">" + fmt)


def has_records(plan: StructPlan, version: int) -> bool:
    return any(_shape_has_records(p.shape, version) for p in (*plan.plain, *plan.tagged))


def _shape_has_records(shape: Shape, version: int) -> bool:
    if shape.item is not None:
        return _shape_has_records(shape.item, version)
    if shape.struct is not None:
        return has_records(plan_struct(shape.struct, version), version)
    return shape.wire is not None and shape.wire.name == "records"
