"""Builds requests from nested dicts; missing fields have their defaults, or the zero of their types."""

from typing import get_args, get_type_hints

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.transport.requests.error_responses import _zero


def _structs(hint):
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in get_args(hint):
        yield from _structs(part)


def make(kind, values, version):
    """Returns a message of class `kind` from `values`, with a dict for each struct, and without fields that `version`
    lacks.
    """
    hints = get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in kind.__fields__}
    assert values.keys() <= fields.keys(), (kind, values.keys() - fields.keys())
    made = {}
    for name, field in fields.items():
        if name in values and version in field.versions:
            made[name] = _value(values[name], list(_structs(hints[name])), version)
        elif field.required:
            made[name] = _nothing(hints[name], version)
    return kind(**made)


def _nothing(hint, version):
    if isinstance(hint, type) and issubclass(hint, Struct):
        return make(hint, {}, version)
    return _zero(hint)()


def _value(value, structs, version):
    if structs and isinstance(value, list):
        return [make(structs[0], item, version) for item in value]
    if structs and isinstance(value, dict):
        return make(structs[0], value, version)
    return value
