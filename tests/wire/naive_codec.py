"""The codec as a naive interpreter that walks a declaration value by value. It is the oracle for generated codecs."""

import io
import struct

from tests.wire.random_messages import plan_of
from trimaran.wire.buffers.primitives import read_uvarint, write_uvarint
from trimaran.wire.codec.plan import size_min
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import DECODE_BUDGET


class NaiveWriter:
    def __init__(self, version, flexible):
        self.version = version
        self.flexible = flexible
        self.out = bytearray()

    def struct(self, value):
        plan = plan_of(type(value), self.version)
        for p in plan.plain:
            self.value(p.shape, getattr(value, p.name), p.nullable)
        if self.flexible:
            said = [p for p in plan.tagged if getattr(value, p.name) != default_of(p)]
            write_uvarint(self.out, len(said))
            for p in said:
                body = NaiveWriter(self.version, True)
                body.value(p.shape, getattr(value, p.name), p.nullable, null=b"\x00")
                write_uvarint(self.out, p.field.tag)
                write_uvarint(self.out, len(body.out))
                self.out += body.out

    def value(self, shape, value, nullable, null=b"\xff"):
        if shape.struct is not None:
            if nullable:
                self.out += null if value is None else b"\x01"
            if value is not None:
                self.struct(value)
        elif shape.item is not None:
            self.size("i", value)
            for item in value or ():
                self.value(shape.item, item, False)
        elif shape.wire.fmt:
            self.out += struct.pack(">" + shape.wire.fmt, value)
        else:
            if isinstance(value, str):
                value = value.encode()
            self.size("h" if shape.wire.name == "string" else "i", value)
            self.out += value or b""

    def size(self, fmt, value):
        size = -1 if value is None else len(value)
        if self.flexible:
            write_uvarint(self.out, size + 1)
        else:
            self.out += struct.pack(">" + fmt, size)


class NaiveReader:
    def __init__(self, data, version, flexible, budget=DECODE_BUDGET):
        self.stream = io.BytesIO(data)
        self.version = version
        self.flexible = flexible
        self.left = budget.elements_max
        self.tags_max = budget.tags_max

    def take(self, size):
        data = self.stream.read(size)
        if len(data) < size:
            raise RemoteProtocolError("short")
        return data

    def remaining(self):
        return len(self.stream.getbuffer()) - self.stream.tell()

    def fixed(self, fmt):
        return struct.unpack(">" + fmt, self.take(struct.calcsize(">" + fmt)))[0]

    def uvarint(self):
        value, size = read_uvarint(self.stream.getvalue(), self.stream.tell())
        self.stream.seek(size)
        return value

    def struct(self, cls):
        plan = plan_of(cls, self.version)
        values = {p.name: default_of(p) for p in (*plan.absent, *plan.tagged)}
        for p in plan.plain:
            values[p.name] = self.value(p.shape, p.nullable)
        if self.flexible:
            values |= self.tagged(plan)
        return cls(**values)

    def tagged(self, plan):
        count, last, found = self.uvarint(), -1, {}
        refused = {p.field.tag for p in plan.absent} - {p.field.tag for p in plan.tagged}
        self.spend(count)
        if count > self.tags_max:
            raise RemoteProtocolError("too many tags")
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            if tag <= last or tag in refused:
                raise RemoteProtocolError("tag")
            last = tag
            body = NaiveReader(self.take(size), self.version, True)
            body.left, body.tags_max = self.left, self.tags_max
            for p in plan.tagged:
                if p.field.tag == tag:
                    found[p.name] = body.value(p.shape, p.nullable, least=1)
                    if body.remaining():
                        raise RemoteProtocolError("tag of another size")
            self.left = body.left
        return found

    def spend(self, count):
        if count > self.left:
            raise RemoteProtocolError("over budget")
        self.left -= count

    def value(self, shape, nullable, least=0):
        if shape.struct is not None:
            return None if nullable and self.fixed("b") < least else self.struct(shape.struct)
        if shape.wire is not None and shape.wire.fmt:
            return self.fixed(shape.wire.fmt)
        is_string = shape.wire is not None and shape.wire.name == "string"
        size = self.uvarint() - 1 if self.flexible else self.fixed("h" if is_string else "i")
        if size == -1 and nullable:
            return None
        if size < 0 or (is_string and size > 0x7FFF):
            raise RemoteProtocolError("size")
        if shape.item is not None:
            self.spend(size)
            if size * max(1, size_min(shape.item, False, self.version, self.flexible)) > (
                self.remaining()
            ):
                raise RemoteProtocolError("count")
            return [self.value(shape.item, False) for _ in range(size)]
        data = self.take(size)
        try:
            return data.decode() if is_string else data
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("text") from error


def default_of(p):
    return p.field.factory() if p.field.factory else p.field.default


def encode(message, version):
    writer = NaiveWriter(version, version in message.FLEXIBLE)
    writer.struct(message)
    return bytes(writer.out)


def decode(cls, data, version):
    reader = NaiveReader(data, version, version in cls.FLEXIBLE)
    message = reader.struct(cls)
    if reader.remaining():
        raise RemoteProtocolError("more")
    return message
