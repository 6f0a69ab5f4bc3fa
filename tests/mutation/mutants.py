"""The mutants of a source file by place: functions, module constants, declarations. Class bodies other than those of
messages, defaults, assertions and `__repr__` are not mutated.
"""

import ast
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.declarations import (
    OF_BOUNDS,
    OF_MESSAGES,
    OF_RIGHTS,
    changed_message,
    changed_rights,
)
from tests.mutation.operators import is_no_behaviour, mutations, swaps

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ONLY_PRINTED = {"__repr__", "__str__"}


@dataclass
class Place:
    """The place of a node, or of the list `name` of `parent`, in the tree; `shown` is the enclosing expression or
    statement, which a reader can find in the source.
    """

    parent: ast.AST
    name: str
    index: int | None
    shown: ast.AST

    def get(self) -> ast.AST:
        held = getattr(self.parent, self.name)
        return held if self.index is None else held[self.index]

    def set(self, node: ast.AST | list[ast.stmt]) -> None:
        if self.index is None:
            setattr(self.parent, self.name, node)
        else:
            getattr(self.parent, self.name)[self.index] = node


@dataclass
class Mutant:
    """`where` is `module:qualified name`. If `constant` is set, that module constant becomes `value`; otherwise a
    function changes, or what its decorator or a class has `declared`. `asked_by` are parts of the names of tests that
    depend on the declaration or constant without executing its lines.
    """

    path: Path
    where: str
    change: str
    lines: range
    tree: ast.Module
    function_line: int = 0
    place: Place | None = None
    becomes: ast.AST | list[ast.stmt] | None = None
    constant: str = ""
    value: int | float = 0
    declared: ast.stmt | None = None
    asked_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.where}  {self.change}"

    def mutated_tree(self) -> ast.Module:
        """Changes the shared tree of the file, so the process must end after this mutant."""
        self.place.set(self.becomes)
        return ast.fix_missing_locations(self.tree)


def mutants_of(path: Path, module: str, places: Container[str] | None = None) -> list[Mutant]:
    """Returns all mutants of a file in source order, of its functions only those whose `where` is one of `places` if
    given; each combination of `where` and `change` is unique.
    """
    tree = ast.parse(path.read_text())
    found = [*_of_constants(path, module, tree)]
    for name, function in _functions(tree, ""):
        where = f"{module}:{name}"
        if function.name not in ONLY_PRINTED and (places is None or where in places):
            found += _of_function(path, where, tree, function)
    found += _of_declarations(path, module, tree)
    seen: dict[str, int] = {}
    for mutant in found:
        seen[mutant.name] = count = seen.get(mutant.name, 0) + 1
        if count > 1:
            mutant.change += f"  #{count}"
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yields the functions of the module and of its classes; a nested function belongs to the enclosing one."""
    for child in node.body:
        if isinstance(child, FUNCTIONS):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _of_constants(path: Path, module: str, tree: ast.Module) -> Iterator[Mutant]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                number = _number(value)
                if number is None:
                    continue
                # A threshold or count is off by one; a time or size is doubled, or in the wrong unit.
                is_mark = isinstance(number, int) and abs(number) < 10
                for other in [number + 1] if is_mark else [number * 2, number * 1000]:
                    yield Mutant(
                        path,
                        f"{module}:{name}",
                        f"{ast.unparse(value)} -> {other}",
                        range(node.lineno, node.end_lineno + 1),
                        tree,
                        constant=name,
                        value=other,
                        asked_by=OF_BOUNDS,
                    )


def _number(node: ast.AST) -> int | float | None:
    if any(isinstance(inner, ast.Name | ast.Call | ast.Attribute) for inner in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "constant", "eval"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _of_function(
    path: Path, where: str, tree: ast.Module, function: ast.FunctionDef
) -> Iterator[Mutant]:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    for place in _places(function, "body", function):
        node = place.get()
        for other in mutations(node, place.parent):
            before = ast.unparse(place.shown)
            place.set(other)
            after = ast.unparse(place.shown)
            if place.shown is node:
                after = "(left out)" if isinstance(other, ast.Pass) else ast.unparse(other)
            place.set(node)
            change = f"{_first_line(before)} -> {_first_line(after)}"
            lines = range(node.lineno, node.end_lineno + 1)
            yield Mutant(path, where, change, lines, tree, first, place, other)
    for place in _lists(function):
        for index, other in swaps(place.get()):
            late, early = (_first_line(ast.unparse(item)) for item in other[index : index + 2])
            change = f"{early}; {late} -> {late}; {early}"
            lines = range(other[index + 1].lineno, other[index].end_lineno + 1)
            yield Mutant(path, where, change, lines, tree, first, place, other)


def _of_declarations(path: Path, module: str, tree: ast.Module) -> Iterator[Mutant]:
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            changes = [right for each in node.decorator_list for right in changed_rights(each)]
            lines, asked_by = range(node.body[0].lineno, node.end_lineno + 1), OF_RIGHTS
        elif isinstance(node, ast.ClassDef):
            changes = list(changed_message(node))
            lines, asked_by = range(0), OF_MESSAGES
        else:
            continue
        where = f"{module}:{node.name}"
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for shown, old, other in changes:
            place = _place_of(node, old)
            before = ast.unparse(shown)
            place.set(other)
            change = f"{before} -> {ast.unparse(shown)}"
            place.set(old)
            yield Mutant(
                path,
                where,
                change,
                lines,
                tree,
                first,
                place,
                other,
                declared=node,
                asked_by=asked_by,
            )


def _place_of(root: ast.AST, node: ast.AST) -> Place:
    for parent in ast.walk(root):
        for name, held in ast.iter_fields(parent):
            if held is node:
                return Place(parent, name, None, node)
            if isinstance(held, list):
                for index, child in enumerate(held):
                    if child is node:
                        return Place(parent, name, index, node)
    raise LookupError(node)


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removesuffix(":")


def _lists(function: ast.AST) -> Iterator[Place]:
    """Yields each list of statements."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                yield Place(node, name, None, node)


def _places(parent: ast.AST, name: str, shown: ast.AST) -> Iterator[Place]:
    held = getattr(parent, name)
    nodes = enumerate(held) if isinstance(held, list) else [(None, held)]
    for index, node in nodes:
        if not isinstance(node, ast.AST) or is_no_behaviour(node):
            continue
        is_detail = isinstance(node, ast.Constant | ast.UnaryOp | ast.keyword)
        around = shown if is_detail else node
        if isinstance(node, ast.expr | ast.stmt):
            yield Place(parent, name, index, around)
        for inner in node._fields:
            if inner not in ("annotation", "returns", "args", "decorator_list") or isinstance(
                node, ast.Call
            ):
                yield from _places(node, inner, around)
