"""The JSON form of decoded values.

Bytes are base64, and floats that JSON cannot express are "NaN", "Infinity" and "-Infinity", as in Protobuf's JSON;
times are ISO 8601; decimals and UUIDs are strings. Integers are numbers without a limit of size.
"""

from __future__ import annotations

import datetime as dt
import math
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID


def as_json(value: object) -> object:
    """Returns the value with `dict`, `list`, `str`, `int`, `float`, `bool` and None only."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in value]
    form = _FORMS.get(type(value), str)
    return form(value)


def _number(value: float) -> object:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: dt.datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _seconds(value: dt.timedelta) -> str:
    whole = value // dt.timedelta(microseconds=1)
    sign, whole = ("-", -whole) if whole < 0 else ("", whole)
    return f"{sign}{whole // 1_000_000}.{whole % 1_000_000:06}".rstrip("0").rstrip(".") + "s"


_FORMS: dict[type, Callable[..., object]] = {
    float: _number,
    bytes: lambda value: b64encode(value).decode(),
    dt.datetime: _time,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: _seconds,
    Decimal: lambda value: format(value, "f"),
    UUID: str,
}
