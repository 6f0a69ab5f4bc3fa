"""Templates, and human-readable formats of numbers, times and bytes. Everything is escaped."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from trimaran.console.lines import path_of
from trimaran.node.config.config_def import java_double
from trimaran.node.runtime.clock import now_ms
from trimaran.node.text.escaping import bounded, one_line
from trimaran.node.text.wording import counted, entity_text

TEXT_CHARACTERS_MAX = 400
COMPACT_CHARACTERS_MAX = 160
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_ABSENT = "–"


@cache
def environment() -> Environment:
    """Returns the environment of templates; a name that a view does not set is an error."""
    made = Environment(
        loader=PackageLoader("trimaran.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        n=number,
        counted=counted,
        entity=entity_text,
        size=size,
        duration=duration,
        ago=ago,
        clock=clock,
        clock_short=lambda timestamp_ms: clock(timestamp_ms)[11:19],
        measured=measured,
        path_of=path_of,
        text=text,
        ids=ids,
        compact=compact,
        printable=printable,
        part=lambda name: quote(str(name), safe=""),
        change_query=change_query,
    )
    return made


def number(value: float | None) -> str:
    """Returns `12,345`; or `NaN` or `Infinity`, which are valid quotas."""
    if value is None:
        return _ABSENT
    if not math.isfinite(value):
        return java_double(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def size(value: int | None) -> str:
    """Returns bytes as `1.5 MiB`; a negative number is unknown."""
    if value is None or value < 0:
        return _ABSENT
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{value} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def measured(value: float | None, unit: str) -> str:
    """Returns a value with its unit: `1.5 MiB/s`, `310 /s`, `12 ms`."""
    if value is None:
        return _ABSENT
    if unit == "bytes/s":
        return f"{size(round(value))}/s"
    if unit == "ms":
        return f"{value:.2g} ms" if value < 10 else f"{value:,.0f} ms"
    return f"{value:.2g} /s" if value < 10 else f"{value:,.0f} /s"


def duration(seconds: float | None) -> str:
    """Returns a duration in its two largest units: `850 ms`, `12.3 s`, `4 min 10 s`, `3 h 5 min`, `2 d 4 h`."""
    if seconds is None:
        return _ABSENT
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, name, below in ((86400, "d", "h"), (3600, "h", "min"), (60, "min", "s")):
        if whole >= unit:
            rest = whole % unit // {"h": 3600, "min": 60, "s": 1}[below]
            return f"{whole // unit} {name} {rest} {below}"
    raise AssertionError


def ago(timestamp_ms: int | None) -> str:
    if timestamp_ms is None or timestamp_ms < 0:
        return _ABSENT
    return f"{duration(max(0, now_ms() - timestamp_ms) / 1000)} ago"


def clock(timestamp_ms: int | None) -> str:
    """Returns the local date and time with milliseconds."""
    if timestamp_ms is None or timestamp_ms < 0:
        return _ABSENT
    try:
        when = time.localtime(timestamp_ms // 1000)
    except (OverflowError, ValueError, OSError):  # a producer may write any number
        return str(timestamp_ms)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', when)}.{timestamp_ms % 1000:03d}"


def text(value: object) -> str:
    """Returns a client's text on one line and of bounded length."""
    return _ABSENT if value is None else bounded(one_line(str(value)), TEXT_CHARACTERS_MAX)


def compact(value: object) -> str:
    """Returns the beginning of plain data, on one line."""
    said = value if isinstance(value, str) else json.dumps(value, default=str)
    return bounded(one_line(said), COMPACT_CHARACTERS_MAX)


def printable(value: str) -> str:
    """Returns a client's text with its lines; other control characters are escaped."""
    return "\n".join(one_line(line) for line in value.split("\n"))


def ids(values: Any) -> str:
    return ", ".join(map(str, values)) or _ABSENT


def change_query(query: dict[str, object], **changes: object) -> str:
    """Returns the address of the same page with a changed query; None removes a parameter."""
    words = query | changes
    kept = {name: str(value) for name, value in words.items() if value is not None and value != ""}
    return f"?{urlencode(kept)}" if kept else "?"


def render(template: str, values: dict[str, Any]) -> str:
    return environment().get_template(template).render(values)


def to_json(data: Any) -> str:
    """Returns plain data as JSON; a NamedTuple becomes an object."""
    return json.dumps(_plain(data), indent=2, default=str, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(each_value) for name, each_value in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(each_value) for name, each_value in asdict(value).items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(each_value) for name, each_value in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
