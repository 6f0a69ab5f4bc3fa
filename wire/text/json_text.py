"""Direct conversion of messages to JSON text: the result of `json.dumps(as_json(message))`, many times faster.

Used for tables with millions of records. The writer of a class is generated once, as one f-string. Tests compare it
with `trimaran.wire.text.as_json`, which also states which values are hidden.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import Shape, shape_of
from trimaran.wire.codec.source import FunctionSource
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.text.as_json import HIDDEN, SECRET_FIELDS, base64_text

Writer = Callable[[Any], str]
_text = json.encoder.encode_basestring_ascii
_HIDDEN = _text(HIDDEN)


def json_text(message: Struct) -> str:
    """Returns the message as JSON with all fields, without spaces."""
    return json_writer(type(message))(message)


@cache
def json_writer(cls: type[Struct]) -> Writer:
    """Returns the `json_text` of one class, for many messages of it."""
    hidden = SECRET_FIELDS.get(cls.__name__, frozenset())
    names = {field.name for field in cls.__fields__}
    write = _generated(cls, hidden)
    if not {"name", "value"} <= names:
        return write
    write_guarded = _generated(cls, hidden | {"value"})
    tells_kind = "resource_type" in names

    def write_named(message: Any) -> str:
        kind = message.resource_type if tells_kind else None
        if isinstance(message.name, str) and is_sensitive(message.name, kind):
            return write_guarded(message)
        return write(message)

    return write_named


def _generated(cls: type[Struct], hidden: frozenset[str]) -> Writer:
    source = FunctionSource()
    parts = []
    for field in cls.__fields__:
        shape, optional = shape_of(field.annotation)
        value = f"m.{field.name}"
        if field.name in hidden:
            shown = source.bind("hidden", _HIDDEN)
            optional = True
        else:
            shown = _expression(shape, value, source)
        # An f-string inserts text unchanged, and formats numbers as in JSON.
        text = f"'null' if {value} is None else {shown}" if optional else shown
        parts.append(f'"{field.name}":{{{text}}}')
    with source.block("def write(m):"):
        source.emit(f"return f'''{{{{{','.join(parts)}}}}}'''")
    return source.compile("write", f"<json text of {cls.__name__}>")


def _expression(shape: Shape, value: str, source: FunctionSource) -> str:
    """Returns the expression that formats a value that is not null."""
    if shape.item is None and _is_number(shape):
        return value
    return f"{source.bind('write', _value_writer(shape))}({value})"


def _is_number(shape: Shape) -> bool:
    named = shape.wire is not None and shape.wire.name
    return bool(named) and named not in ("uuid", "bytes", "records", "string", "bool", "float64")


def _value_writer(shape: Shape) -> Writer:
    if shape.item is not None:
        return _array_writer(shape.item)
    if shape.wire is None:
        assert shape.struct is not None
        return json_writer(shape.struct)
    match shape.wire.name:
        case "uuid":
            return _uuid
        case "bytes" | "records":
            return lambda value: f'"{base64_text(bytes(value))}"'
        case "string":
            return _text
        case "bool":
            return lambda value: "true" if value else "false"
        case "float64":
            return _float
        case _:
            return str


def _array_writer(item: Shape) -> Writer:
    write = _value_writer(item)
    if item.wire is not None:
        return lambda values: f"[{','.join(map(write, values))}]"
    return lambda values: (
        "[" + ",".join(["null" if value is None else write(value) for value in values]) + "]"
    )


@lru_cache(maxsize=1 << 14)
def _uuid(value: bytes) -> str:
    return f'"{uuid_to_text(value)}"'


def _float(value: float) -> str:
    shown = repr(float(value))
    return f'"{shown}"' if shown in ("nan", "inf", "-inf") else shown
