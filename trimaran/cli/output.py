"""Tables for people, JSON for scripts. stdout carries data only; everything else goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from trimaran.text import one_line

Format = Annotated[Literal["table", "json"], Parameter(name=["-o", "--output"])]


def show_rows(
    rows: Sequence[Mapping[str, Any]], output: str, *, columns: Sequence[str] | None = None
) -> None:
    """Prints rows of one shape; `columns` chooses and orders those of the table, JSON always has all."""
    if output == "json":
        show_json(list(rows))
        return
    names = list(columns or (rows[0] if rows else ()))
    cells = [[name.upper().replace("_", "-") for name in names]]
    cells += [[text_of(row[name]) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def show_fields(fields: Mapping[str, Any], output: str) -> None:
    """Prints one object, a line a field."""
    if output == "json":
        show_json(fields)
        return
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        print(f"{name.ljust(width)}  {text_of(value)}")


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def show_json_line(value: Any) -> None:
    """One of many objects, a line each, at once: for streams."""
    print(json.dumps(value, default=str), flush=True)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def text_of(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(text_of(item) for item in value) or "-"
        case _:
            return one_line(str(value))


def say(text: str) -> None:
    """Talk, as opposed to data: stderr."""
    print(text, file=sys.stderr, flush=True)
