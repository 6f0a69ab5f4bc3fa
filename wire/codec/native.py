# cython: language_level=3, boundscheck=True, wraparound=False
"""Decodes messages in C with a program that describes one version of a message; `trimaran.wire.codec.program` writes
it.

```
program = class, op of each field, op of each tagged field, refused tags
    of a struct; a message is the outermost one
op      = letter, slot and tag of the field, whether it is nullable, and
    "="                     a default, for a field that this version lacks, or that is tagged and may follow
    "l"                     an empty list as a default, a new one for each message
    b ? h H i I q d         a number, as in `struct`
    "u"                     a UUID
    "s" "y" "r"             string, bytes, record batches: size and bytes
    "{" program             a struct; a nullable one behind a byte
    "[" item, least bytes   an array: count and items, which are ops without a slot
```

It decodes as the generated readers do (`trimaran.wire.codec.reader`), and refuses the same bytes. Refused bytes are
passed to a generated reader, which names the fault, so that error texts are in one place. If this module was not
compiled, importing it raises ImportError, and the generated readers read all messages.

Only `take` accesses bytes, and checks the buffer's end. All state is in the call's `Cursor`, because a finalizer or
another thread may run the same program. The types for callers are in `native.pyi`.
"""

from __future__ import annotations

import gc
import struct

import cython

if not cython.compiled:
    raise ImportError("trimaran.wire.codec.native was not compiled")

from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.object import Py_TYPE, descrsetfunc
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8

_STRING_BYTES_MAX = cython.declare(cython.Py_ssize_t, 0x7FFF)
# Above this size the garbage collector is off until the message is complete, as in all C code from Python 3.12 on: a
# message contains no garbage, and a search of ten thousand partitions for garbage took two fifths of the time.
_COLLECTED_BYTES_MAX = cython.declare(cython.Py_ssize_t, 2048)
# After this many items (about 2 ms) other threads may run, if one of them has waited long.
_ITEMS_PER_TURN = cython.declare(cython.Py_ssize_t, 4096)
_unpack_float64 = struct.Struct(">d").unpack


class Refused(Exception):
    """The bytes are not a message of this version, or exceed the budget."""


@cython.final
@cython.cclass
class Op:
    """Reads one field, or each item of an array."""

    format_code: cython.Py_UCS4
    slot: object  # the member descriptor of the class
    store: descrsetfunc
    nullable: cython.bint
    tag: cython.longlong  # -1: none
    value: object
    program: Program
    item: Op
    least: cython.Py_ssize_t  # bytes of an item

    def __init__(
        self,
        format_code,
        slot,
        nullable=False,
        tag=-1,
        value=None,
        program=None,
        item=None,
        least=1,
    ) -> None:
        self.format_code = format_code
        self.slot = slot
        self.store = Py_TYPE(slot).tp_descr_set
        if slot is not None and self.store == cython.NULL:
            raise TypeError(f"{slot!r} is not a slot")
        self.nullable = nullable
        self.tag = tag
        self.value = value
        self.program = program
        self.item = item
        self.least = least


@cython.final
@cython.cclass
class Program:
    """Reads a struct: the ops for its slots, in wire order, and the tags that may follow."""

    struct: object
    ops: list
    tagged: list
    refused: tuple

    def __init__(self, struct, ops, tagged, refused) -> None:
        self.struct = struct
        self.ops = ops
        self.tagged = tagged
        self.refused = refused


@cython.final
@cython.cclass
class Decoder:
    """Reads one version of a message."""

    program: Program
    flexible: cython.bint
    refused: object

    def __init__(self, program, flexible, refused) -> None:
        self.program = program
        self.flexible = flexible
        self.refused = refused

    def read(self, buf, elements_max, tags_max):
        try:
            if len(buf) <= _COLLECTED_BYTES_MAX or not gc.isenabled():
                return self.attempt(buf, elements_max, tags_max)
            gc.disable()
            try:
                return self.attempt(buf, elements_max, tags_max)
            finally:
                gc.enable()
        except (Refused, UnicodeDecodeError, BufferError):
            return self.refused(buf, elements_max, tags_max)

    def read_all(self, bufs, prefix, elements_max, tags_max):
        """Returns the messages in these bytes, each after `prefix`; None if one is refused: the caller then decodes
        them one by one to find the refused message.
        """
        cursor: Cursor = Cursor.__new__(Cursor)
        cursor.flexible = self.flexible
        cursor.tags_max = tags_max
        skipped: cython.Py_ssize_t = len(prefix)
        messages: list = []
        buf: bytes
        try:
            for buf in bufs:
                if not buf.startswith(prefix):
                    return None
                cursor.source = buf
                cursor.view = None
                cursor.data = cython.cast(cython.p_uchar, PyBytes_AS_STRING(buf))
                cursor.pos = skipped
                cursor.end = len(buf)
                cursor.left = elements_max
                messages.append(cursor.read_struct(self.program))
                if cursor.pos != cursor.end:
                    return None
        except (Refused, UnicodeDecodeError):
            return None
        return messages

    @cython.ccall
    def attempt(self, buf, elements_max, tags_max):
        cursor: Cursor = Cursor.__new__(Cursor)
        PyObject_GetBuffer(buf, cython.address(cursor.buffer), PyBUF_SIMPLE)
        try:
            cursor.source = buf
            cursor.data = cython.cast(cython.p_uchar, cursor.buffer.buf)
            cursor.end = cursor.buffer.len
            cursor.flexible = self.flexible
            cursor.left = elements_max
            cursor.tags_max = tags_max
            message = cursor.read_struct(self.program)
            return message, cursor.pos, cursor.left
        finally:
            PyBuffer_Release(cython.address(cursor.buffer))


@cython.final
@cython.freelist(4)
@cython.cclass
class Cursor:
    """A position in the bytes of one message, and the rest of its budget."""

    source: object
    view: object  # a view of all bytes, created for the first record batches
    buffer: Py_buffer
    data: cython.p_uchar
    pos: cython.Py_ssize_t
    end: cython.Py_ssize_t
    flexible: cython.bint
    left: cython.longlong
    tags_max: cython.longlong

    @cython.cfunc
    def read_struct(self, program: Program) -> object:
        struct: type = cython.cast(type, program.struct)
        target = struct.__new__(struct)
        op: Op
        for op in program.ops:
            op.store(op.slot, target, self.read_value(op))
        if self.flexible and self.data[self.take(1)]:
            self.pos -= 1
            self.read_tags(program, target)
        return target

    @cython.cfunc
    def read_value(self, op: Op) -> object:
        format_code: cython.Py_UCS4 = op.format_code
        if format_code == "=":
            return op.value
        if format_code == "l":
            return []
        if format_code == "{":
            if op.nullable and cython.cast(cython.schar, self.data[self.take(1)]) < (op.tag >= 0):
                return None  # null is the int8 -1, but the unsigned varint 0 in a tagged field
            return self.read_struct(op.program)
        if format_code == "s" or format_code == "y" or format_code == "r" or format_code == "[":
            return self.read_sized(op)
        return self.read_fixed(format_code)

    @cython.cfunc
    def read_fixed(self, format_code: cython.Py_UCS4) -> object:
        if format_code == "i":
            return cython.cast(cython.int, _uint32(self.data + self.take(4)))
        if format_code == "q":
            return cython.cast(cython.longlong, _uint64(self.data + self.take(8)))
        if format_code == "h":
            return cython.cast(cython.short, _uint16(self.data + self.take(2)))
        if format_code == "b":
            return cython.cast(cython.schar, self.data[self.take(1)])
        if format_code == "?":
            return self.data[self.take(1)] != 0
        if format_code == "u":
            return self.read_bytes(16)
        if format_code == "H":
            return _uint16(self.data + self.take(2))
        if format_code == "I":
            return _uint32(self.data + self.take(4))
        if format_code == "d":
            return _unpack_float64(self.read_bytes(8))[0]
        raise AssertionError(f"no op is called {format_code}")

    @cython.cfunc
    @cython.inline
    def read_bytes(self, size: cython.Py_ssize_t) -> bytes:
        return PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, self.data + self.take(size)), size
        )

    @cython.cfunc
    def read_sized(self, op: Op) -> object:
        format_code: cython.Py_UCS4 = op.format_code
        size: cython.longlong
        if self.flexible:
            size = cython.cast(cython.longlong, self.read_uvarint()) - 1
        elif format_code == "s":
            size = cython.cast(cython.short, _uint16(self.data + self.take(2)))
        else:
            size = cython.cast(cython.int, _uint32(self.data + self.take(4)))
        if size == -1 and op.nullable:
            return None
        if size < 0 or size > self.end - self.pos:
            raise Refused
        if format_code == "[":
            return self.read_array(op, size)
        if format_code == "s":
            if size > _STRING_BYTES_MAX:
                raise Refused
            return PyUnicode_DecodeUTF8(
                cython.cast(cython.p_char, self.data + self.take(size)), size, cython.NULL
            )
        if format_code == "r":
            if self.view is None:
                self.view = memoryview(self.source)
            self.pos += size
            return self.view[self.pos - size : self.pos]
        return self.read_bytes(size)

    @cython.cfunc
    def read_array(self, op: Op, count: cython.Py_ssize_t) -> object:
        i: cython.Py_ssize_t
        if count > (self.end - self.pos) // op.least or count > self.left:
            raise Refused
        self.left -= count
        items: list = [None] * count
        for i in range(count):
            items[i] = self.read_value(op.item)
            if (i + 1) % _ITEMS_PER_TURN == 0:
                with cython.nogil:
                    pass
        return items

    @cython.cfunc
    @cython.exceptval(-1)
    def read_tags(self, program: Program, target: object) -> cython.int:
        op: Op
        last: cython.longlong = -1
        count: cython.longlong = self.read_uvarint()
        if count > self.tags_max or count > self.left:
            raise Refused
        self.left -= count
        while count > 0:
            count -= 1
            tag: cython.longlong = self.read_uvarint()
            size: cython.longlong = self.read_uvarint()
            if tag <= last or size > self.end - self.pos or tag in program.refused:
                raise Refused
            last = tag
            end: cython.Py_ssize_t = self.pos + size
            for op in program.tagged:
                if op.tag == tag:
                    op.store(op.slot, target, self.read_value(op))
                    if self.pos != end:
                        raise Refused
            self.pos = end
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(0xFFFFFFFF, check=True)
    def read_uvarint(self) -> cython.uint:
        """Reads at most 32 bits; higher bits of a fifth byte are dropped."""
        value: cython.uint = self.data[self.take(1)]
        byte: cython.uint = value
        shift: cython.int = 7
        value &= 0x7F
        while byte >= 0x80:
            if shift == 35:
                raise Refused
            byte = self.data[self.take(1)]
            value |= (byte & 0x7F) << shift
            shift += 7
        return value

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def take(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Returns the position of the next `size` bytes, after it has checked that they exist."""
        at: cython.Py_ssize_t = self.pos
        if size > self.end - at:
            raise Refused
        self.pos = at + size
        return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint16(p: cython.p_uchar) -> cython.ushort:
    return p[0] << 8 | p[1]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint32(p: cython.p_uchar) -> cython.uint:
    return cython.cast(cython.uint, p[0]) << 24 | p[1] << 16 | p[2] << 8 | p[3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint64(p: cython.p_uchar) -> cython.ulonglong:
    return cython.cast(cython.ulonglong, _uint32(p)) << 32 | _uint32(p + 4)
