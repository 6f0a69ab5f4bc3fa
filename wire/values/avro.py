"""Values in Avro's binary encoding, by fastavro.

The compiled reader has no limit of depth: a deeply nested value of a recursive type would overflow the stack. Therefore
recursive types are read by fastavro's reader in Python.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_PREC, Context, Decimal
from typing import TYPE_CHECKING, Any

from trimaran.wire.later import imported_later
from trimaran.wire.values.avro_shape import AvroShape
from trimaran.wire.values.failures import EXTRA, UndecodedValue, UnusableSchema

if TYPE_CHECKING:
    import fastavro
    from fastavro import _read_py as in_python
    from fastavro import read as fastavro_read
else:
    fastavro = imported_later("fastavro")
    in_python = imported_later("fastavro._read_py")
    fastavro_read = imported_later("fastavro.read")

DECIMAL_BYTES_MAX = 512
"""The maximum size of an unscaled decimal: 1,232 digits. The time to convert them grows with the square of the size."""
SCALE_MAX = 1_232
"""The maximum number of decimal places."""

_DECIMAL = "bounded-decimal"
# fastavro documents no exceptions. For malformed bytes and schemas it raises these, and its own SchemaResolutionError
# and SchemaParseException, which are not subclasses of these.
_REFUSED = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, TypeError),
    ValueError,  # includes UnicodeDecodeError and fastavro's UnknownType
)


@dataclass(frozen=True)
class AvroSchema:
    """A schema with its named types, checked. It is pickled as its `texts`: those of the references, then its own."""

    parsed: Any
    named: dict[str, Any]
    recursive: bool
    texts: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the call that recreates the schema in another process."""
        return avro_schema, (self.texts[-1], self.texts[:-1])

    def decode(self, payload: memoryview, read_as: AvroSchema | None = None) -> object:
        """Returns the value with `dict`, `list`, `bytes`, `datetime`, `Decimal` and other types of Python.

        Args:
            payload: the value without its frame.
            read_as: the reader's schema: fields are renamed, promoted, dropped and defaulted by Avro's rules.

        Raises:
            UndecodedValue: the bytes are not a value of the schema, or cannot be resolved to the reader's schema.
        """
        stream = io.BytesIO(payload)
        reader = read_as.parsed if read_as is not None else None
        read = in_python.schemaless_reader if self.recursive else fastavro.schemaless_reader
        try:
            value: object = read(stream, self.parsed, reader)
        except RecursionError:
            raise UndecodedValue("the value is nested too deeply to be read") from None
        except UndecodedValue:
            raise
        except (*_REFUSED, fastavro_read.SchemaResolutionError) as error:
            told = f"{type(error).__name__}: {str(error)[:200]}"
            raise UndecodedValue(
                f"the bytes are no value of its Avro schema ({told}): see its producer"
            ) from None
        if (left := len(payload) - stream.tell()) > 0:
            raise UndecodedValue(
                f"{left} of {len(payload)} bytes are left after the value: written by another schema? See its producer"
            )
        return value


def avro_schema(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """Parses a schema; `references` are the schemas whose types it uses, each after the schemas that it depends on.

    Raises:
        UnusableSchema: it is malformed or incomplete, or its values may grow without limit.
    """
    named: dict[str, Any] = {}
    parsed: Any = None
    try:
        fastavro_read.LOGICAL_READERS.update(_OWN_READERS)
        for each in (*references, text):
            parsed = fastavro.parse_schema(_bounded(json.loads(each)), named_schemas=named)
        shape = AvroShape(named)
        shape.check(parsed)
    except ModuleNotFoundError as error:
        raise UnusableSchema(f"Avro needs {error.name}. {EXTRA}") from None
    except UnusableSchema:
        raise
    except (*_REFUSED, fastavro.schema.SchemaParseException) as error:
        told = f"{type(error).__name__}: {str(error)[:200]}"
        raise UnusableSchema(
            f"no Avro schema that can be used ({told}): see who registered it"
        ) from None
    return AvroSchema(parsed, named, shape.recursive, (*references, text))


def _bounded(schema: Any) -> Any:
    """Returns the schema with decimals that `_decimal` reads."""
    if isinstance(schema, list):
        return [_bounded(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {
        name: _bounded(member)
        if name in ("items", "values")
        else [{**each, "type": _bounded(each.get("type"))} for each in member]
        if name == "fields"
        else member
        for name, member in schema.items()
    }
    if bounded.get("logicalType") == "decimal" and bounded.get("type") in ("bytes", "fixed"):
        scale, precision = bounded.get("scale", 0), bounded.get("precision")
        if isinstance(scale, int) and isinstance(precision, int) and 0 <= scale <= SCALE_MAX:
            bounded["logicalType"] = _DECIMAL
        else:
            raise UnusableSchema(
                f"a decimal with precision {precision!r} and scale {scale!r}: both must be integers, and the scale at "
                f"most {SCALE_MAX}"
            )
    return bounded


def _decimal(data: bytes, written: Any = None, _read_as: Any = None) -> Decimal:
    """Reads a decimal; the parameters are those that fastavro passes."""
    if len(data) > DECIMAL_BYTES_MAX:
        raise UndecodedValue(
            f"a decimal of {len(data)} bytes, and at most {DECIMAL_BYTES_MAX} are read: see its producer"
        )
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-written.get("scale", 0), Context(prec=MAX_PREC))


_OWN_READERS = {f"bytes-{_DECIMAL}": _decimal, f"fixed-{_DECIMAL}": _decimal}
