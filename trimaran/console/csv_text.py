"""The rows of a page as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

# A cell that begins so is a formula to a spreadsheet, and names of topics and clients are not ours.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def csv_of(data: Mapping[str, Any]) -> str:
    """`data["rows"]` with a line of names first; nothing where a page has no rows."""
    rows = data.get("rows") or []
    out = io.StringIO()
    if rows:
        names = list(rows[0])
        writer = csv.writer(out)
        writer.writerow(names)
        writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(_FORMULAS):
        return f"'{value}"
    return value
