"""A declaration as in a possible later Kafka: every structure has one more tagged field, which no current version
knows.
"""

from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from trimaran.wire.codec.declarations import Field, Struct, StructMeta, Versions, data
from trimaran.wire.schema import Message

TAG = 4000
EXTRA = Field("extra", data, Versions.parse("0+"), None, TAG, False, b"", None)
EXTRA_VALUE = b"from a later version" * 10


def of_later(message: Struct) -> Struct:
    """Returns the same message with the extra field set in every structure, except for those omitted as defaults."""
    return _convert(message, EXTRA_VALUE)


@cache
def later(cls: type[Struct]) -> type[Struct]:
    fields = (*(_later_field(f) for f in cls.__fields__), EXTRA)
    base = Message if issubclass(cls, Message) else Struct
    body = {"__slots__": tuple(f.name for f in fields), "__fields__": fields}
    made = StructMeta(cls.__name__, (base,), body)
    if base is Message:
        made.KEY, made.VERSIONS, made.FLEXIBLE = cls.KEY, cls.VERSIONS, cls.FLEXIBLE
        made.writers, made.readers = {}, {}
    return made


def _later_field(f: Field) -> Field:
    factory = f.factory if f.factory in (None, list) else later(f.factory)
    return f._replace(annotation=_later_annotation(f.annotation), factory=factory)


def _later_annotation(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return annotation
    if get_origin(annotation) is list:
        return list[_later_annotation(get_args(annotation)[0])]
    if isinstance(annotation, type):
        return later(annotation)
    (inner,) = (a for a in get_args(annotation) if a is not NoneType)
    return _later_annotation(inner) | None


def _convert(value: Any, extra: bytes) -> Any:
    if isinstance(value, list):
        return [_convert(item, extra) for item in value]
    if not isinstance(value, Struct):
        return value
    values = {}
    for f in value.__fields__:
        item = getattr(value, f.name)
        is_default = f.tag is not None and f.factory is not None and item == f.factory()
        values[f.name] = _convert(item, b"" if is_default else extra)
    return later(type(value))(**values, extra=extra)
