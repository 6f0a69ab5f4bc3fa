"""Tables that would be wider than a terminal, such as those of groups: ids and names of topics there have no bound.

Rows are then folded: the first column has a line of its own, once for neighbouring rows with the same value. Below it
are the other columns, as a table if that fits, otherwise one line for each value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from trimaran.cli.output import aligned, put, show_rows, text_of, title

COLUMNS_MAX = 100
_INDENT = "  "


def show_folded(
    rows: Sequence[Mapping[str, Any]], output: str, *, columns: Sequence[str], noun: str
) -> None:
    """Prints rows as `show_rows` does; a table of more than `COLUMNS_MAX` columns of text is folded."""
    table = aligned(rows, columns)
    if output != "table" or _width(table) <= COLUMNS_MAX:
        show_rows(rows, output, columns=columns, noun=noun)
        return
    first, *others = columns
    for value, found in groupby(rows, key=lambda row: row[first]):
        put(f"{title(first)} {text_of(value)}")
        told = list(found)
        table = [_INDENT + line for line in aligned(told, others)]
        for line in table if _width(table) <= COLUMNS_MAX else _fields(told, others):
            put(line)


def _width(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def _fields(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Returns a line for each value; each item of a list has its own."""
    width = max(len(title(name)) for name in columns)
    lines = []
    for row in rows:
        for name in columns:
            value = row[name]
            items = value if isinstance(value, list) and value else [value]
            for number, item in enumerate(items):
                label = "" if number else title(name)
                lines.append(f"{_INDENT}{label.ljust(width)}  {text_of(item)}")
    return lines
