"""The parts of Python files that house rules examine; each file is parsed once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CHECK = re.compile(r"(check|assert)(_|$)|(raises|RaisesGroup|fail|until)$")


class SourceFile(NamedTuple):
    """`docstrings`, also those of fields and constants, have their first lines. `functions` are pairs of a name and the
    lines of the body without the docstring, `classes` those of the module, `imports` the statements at any place, and
    `silent_tests` the tests that cannot fail visibly.
    """

    docstring: str | None
    docstrings: tuple[tuple[int, str], ...]
    functions: tuple[tuple[str, int], ...]
    classes: tuple[str, ...]
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    silent_tests: tuple[str, ...]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yields every statement below a module or statement. No expression contains one, so none is visited."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            if isinstance(inner, list):
                todo += inner
        if isinstance(node, ast.stmt):
            yield node


@cache
def source_file(path: Path) -> SourceFile:
    return parsed(path.read_text())


def parsed(source: str) -> SourceFile:
    tree = ast.parse(source)
    found = [*statements(tree)]
    functions = [node for node in found if isinstance(node, Function)]
    return SourceFile(
        docstring=ast.get_docstring(tree),
        docstrings=tuple(
            (node.body[0].lineno, text)
            for node in (tree, *found)
            if isinstance(node, ast.Module | Definition) and (text := ast.get_docstring(node))
        )
        + tuple(_attribute_docstrings((tree, *found))),
        functions=tuple((node.name, _body_lines(node)) for node in functions),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        imports=tuple(node for node in found if isinstance(node, ast.Import | ast.ImportFrom)),
        silent_tests=tuple(
            node.name for node in functions if node.name.startswith("test_") and not asserts(node)
        ),
    )


def _attribute_docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yields the strings that follow an assignment, with their lines."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef):
            for before, after in pairwise(node.body):
                if (
                    isinstance(before, ast.Assign | ast.AnnAssign)
                    and isinstance(after, ast.Expr)
                    and isinstance(after.value, ast.Constant)
                    and isinstance(after.value.value, str)
                ):
                    yield after.lineno, after.value.value


def _body_lines(node: Function) -> int:
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def asserts(function: ast.AST) -> bool:
    """Returns whether it can fail visibly: by an assertion, an expected error, or a helper named for asserting."""
    for node in ast.walk(function):
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        if isinstance(node, ast.Assert | ast.Raise) or _CHECK.match(name):
            return True
    return False
