"""A page: a path, a function from a request to plain data, and the template that shows the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimaran.console.cluster import ConsoleCluster
from trimaran.errors.user_error import Exit, UserError

ROWS_PER_PAGE = 50
# The longest text in a URL: names of topics have up to 249 characters, group ids and values may be longer.
TEXT_CHARACTERS_MAX = 2000
Row = dict[str, Any]


class NotHere(UserError):
    """The page or its subject does not exist: 404."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request. `path` has the named parts of the URL's path, `query` the part after the `?`."""

    cluster: ConsoleCluster
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, default)[:TEXT_CHARACTERS_MAX]

    def number(self, name: str, default: int, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """Returns a query parameter as a number. Raises UserError if it is invalid or out of range."""
        text = self.query.get(name, "").strip()
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise _wrong(name, text, f"it must be a number, at least {least}")
        if not least <= int(text) <= most:
            raise _wrong(name, text, f"it must be from {least} to {most}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Returns one of `choices`, by default the first. Raises UserError."""
        text = self.query.get(name) or choices[0]
        if text not in choices:
            raise _wrong(name, text, f"it must be one of {', '.join(choices)}")
        return text


def _wrong(name: str, text: str, why: str) -> UserError:
    return UserError(
        f"{name}={text[:80]} in the address is wrong",
        why,
        "correct it, or choose a page from the menu",
        exit_code=Exit.USAGE,
    )


View = Callable[[PageRequest], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `path` is a route of Starlette; `template` shows the data that `view` returns; CSV contains its
    `rows`.
    """

    path: str
    title: str
    template: str
    view: View


def table(
    question: PageRequest,
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    sort: str,
    search: Sequence[str],
) -> dict[str, Any]:
    """Returns one page of rows: those with the text of `filter` in one of the fields `search`, in the order of `sort`.

    The rows may be sorted by `columns`; a leading `-` sorts descending. `sort` is the default order. None is last.
    """
    order = question.choice("sort", [sort, *columns, *(f"-{column}" for column in columns)])
    wanted = question.text("filter").strip().lower()
    if wanted:
        rows = [row for row in rows if any(wanted in str(row[name]).lower() for name in search)]
    key = order.removeprefix("-")
    known = [row for row in rows if row[key] is not None]
    unknown = [row for row in rows if row[key] is None]
    known.sort(key=lambda row: row[key], reverse=order.startswith("-"))
    ordered = known + unknown
    pages = max(1, -(-len(ordered) // ROWS_PER_PAGE))
    page = min(question.number("page", 1, 1), pages)
    start = (page - 1) * ROWS_PER_PAGE
    return {
        "rows": ordered[start : start + ROWS_PER_PAGE],
        "total": len(ordered),
        "page": page,
        "pages": pages,
        "sort": order,
        "filter": question.text("filter"),
    }
