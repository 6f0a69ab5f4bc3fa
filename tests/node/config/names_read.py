"""The configuration keys that the code reads, found in its syntax tree: a string outside the key tables has the name,
or a log reads the field of that name from its `LogConfig`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trimaran.log.config import LogConfig

ROOT = Path(__file__).parents[3]
PACKAGES = ("broker", "log", "node", "quorum", "trimaran", "zkcompat")
# These modules write keys into files, show their names, and check values of keys that nothing else reads.
_LOG_FIELDS = {field.name for field in fields(LogConfig)}
_WRITERS = (
    "trimaran/local/",
    "trimaran/demo/",
    "node/config/altered_together.py",
    "node/config/dynamic_keys.py",
    "node/config/synonyms.py",
)


class _Found(NamedTuple):
    plain: set[str]
    patterns: set[str]
    while_running: set[str]
    while_running_patterns: set[str]


@cache
def _found() -> _Found:
    """Walks each file's tree once and drops it: otherwise the collector would traverse all trees again and again."""
    found = _Found(set(), set(), set(), set())
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            if not place.endswith("_keys.py") and not place.startswith(_WRITERS):
                _add_names_of(ast.parse(path.read_text()), found)
    return found


def _add_names_of(tree: ast.Module, found: _Found) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.plain.add(node.value)
        elif isinstance(node, ast.Attribute) and node.attr in _LOG_FIELDS:
            found.plain.add(node.attr.replace("_", "."))
        elif isinstance(node, ast.JoinedStr) and (pattern := _pattern(node)):
            found.patterns.add(pattern)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "now":
            found.while_running.update(_strings(node.args))
            found.while_running_patterns.update(_patterns(node.args))


@cache
def reads() -> Callable[[str], bool]:
    """Returns whether a name is read. An f-string counts for every name that it can produce."""
    plain, patterns = _found()[:2]
    made = re.compile("|".join(sorted(patterns)))
    return lambda name: name in plain or made.fullmatch(name) is not None


def _pattern(node: ast.JoinedStr) -> str | None:
    """Returns the pattern of a name with a placeholder, such as `compression.{codec}.level` or
    `{kind}.session.timeout.ms`; None for other texts.
    """
    parts = list(_parts(node))
    text = "".join(part for part in parts if part is not None)
    if not re.fullmatch(r"([a-z]+\.[a-z.]*|\.[a-z]+)\.[a-z.]+", text):
        return None
    return "".join("[a-z0-9]+" if part is None else re.escape(part) for part in parts)


def _parts(node: ast.JoinedStr) -> Iterator[str | None]:
    for part in node.values:
        yield str(part.value) if isinstance(part, ast.Constant) else None


def _strings(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def _patterns(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.JoinedStr) and (pattern := _pattern(argument)):
            yield pattern


@cache
def rereads() -> Callable[[str], bool]:
    """Returns whether a name is looked up in a `NodeConfigs`, which knows alterations: `configs.now("…")` or
    `.now_of_listener(…)`.
    """
    found = _found()
    made = re.compile("|".join(sorted(found.while_running_patterns)))
    return lambda name: name in found.while_running or made.fullmatch(name) is not None
