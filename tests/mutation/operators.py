"""The mutants of a source file: one small wrong thing each, of those that people write.

A comparison one off or turned round, a condition left out, `and` for `or`, a least for a most, a number or a truth
value that is another one, a call left out. Not mutated: class bodies, defaults, assertions, what is only logged or
printed.
"""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ONLY_PRINTED = {"__repr__", "__str__"}

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPPOSITES = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.And: ast.Or, ast.Or: ast.And}
EXTREMES = {"max": "min", "min": "max"}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple)


@dataclass
class Place:
    """A node, by where it hangs in the tree: `shown` is the expression or statement around it that a reader can find
    again.
    """

    parent: ast.AST
    name: str
    index: int | None
    shown: ast.AST

    def get(self) -> ast.AST:
        held = getattr(self.parent, self.name)
        return held if self.index is None else held[self.index]

    def set(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.name, node)
        else:
            getattr(self.parent, self.name)[self.index] = node


@dataclass
class Mutant:
    """`where` is `module:qualified name`; `constant` names the module's constant that becomes `value`, else a function
    changes.
    """

    path: Path
    where: str
    change: str
    lines: range
    tree: ast.Module
    function_line: int = 0
    place: Place | None = None
    becomes: ast.AST | None = None
    constant: str = ""
    value: int | float = 0
    tests: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.where}  {self.change}"

    def mutated_tree(self) -> ast.Module:
        """Changes the one tree of the file: for a process that ends after this mutant."""
        self.place.set(self.becomes)
        return ast.fix_missing_locations(self.tree)


def mutants_of(path: Path, module: str) -> list[Mutant]:
    """All of a file, in its order; `where` and `change` together are unlike those of any other."""
    tree = ast.parse(path.read_text())
    found = [*_of_constants(path, module, tree)]
    for name, function in _functions(tree, ""):
        if function.name not in ONLY_PRINTED:
            found += _of_function(path, f"{module}:{name}", tree, function)
    seen: dict[str, int] = {}
    for mutant in found:
        seen[mutant.name] = count = seen.get(mutant.name, 0) + 1
        if count > 1:
            mutant.change += f"  #{count}"
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Those of the module and of its classes; what is nested in one belongs to it."""
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
                # A mark or a count is one off; a time or a size is twice itself.
                other = number + 1 if isinstance(number, int) and abs(number) < 10 else number * 2
                yield Mutant(
                    path,
                    f"{module}:{name}",
                    f"{ast.unparse(value)} -> {other}",
                    range(node.lineno, node.end_lineno + 1),
                    tree,
                    constant=name,
                    value=other,
                )


def _number(node: ast.AST) -> int | float | None:
    if any(isinstance(inner, ast.Name | ast.Call | ast.Attribute) for inner in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "constant", "eval"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _of_function(
    path: Path, where: str, tree: ast.Module, function: ast.FunctionDef
) -> Iterator[Mutant]:
    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    for place in _places(function, "body", function):
        node = place.get()
        for other in _mutations(node, place.parent):
            before = ast.unparse(place.shown)
            place.set(other)
            after = ast.unparse(place.shown)
            if place.shown is node:
                after = "(left out)" if isinstance(other, ast.Pass) else ast.unparse(other)
            place.set(node)
            change = f"{_first_line(before)} -> {_first_line(after)}"
            lines = range(node.lineno, node.end_lineno + 1)
            yield Mutant(path, where, change, lines, tree, first, place, other)


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removesuffix(":")


def _places(parent: ast.AST, name: str, shown: ast.AST) -> Iterator[Place]:
    held = getattr(parent, name)
    nodes = enumerate(held) if isinstance(held, list) else [(None, held)]
    for index, node in nodes:
        if not isinstance(node, ast.AST) or _is_no_behaviour(node):
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


def _is_no_behaviour(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level)):
            return level in ("debug", "info", "warning", "error", "exception")
    return False


def _mutations(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield _with(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield from _without_one(node, "values", values)
            yield _with(node, op=OPPOSITES[type(op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Call(func=ast.Name(id=name), args=args) if name in EXTREMES:
            yield _with(node, func=_with(node.func, id=EXTREMES[name]))
            yield from _without_one(node, "args", args)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield from _of_sum(node)
        case ast.AugAssign(op=ast.Add() | ast.Sub()) if not isinstance(node.value, TEXTS):
            yield _with(node, op=OPPOSITES[type(node.op)]())
        case ast.Constant(value=int()):  # truth values are numbers, too
            yield from _of_number(node, parent)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            if not _is_no_behaviour(node.value):
                yield ast.copy_location(ast.Pass(), node)
    yield from _of_test(node, parent)


def _without_one(node: ast.AST, name: str, parts: list[ast.expr]) -> Iterator[ast.AST]:
    """`node` without each of its parts in turn; of two parts that is the other one."""
    for index in range(len(parts) if len(parts) > 1 else 0):
        rest = [*parts[:index], *parts[index + 1 :]]
        yield rest[0] if len(rest) == 1 else _with(node, **{name: rest})


def _of_sum(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.right, ast.Constant) and node.right.value == 1:
        yield node.left
    elif not isinstance(node.left, TEXTS) and not isinstance(node.right, TEXTS):
        yield _with(node, op=OPPOSITES[type(node.op)]())


def _of_number(node: ast.Constant, parent: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield _with(node, value=not node.value)
    elif not (isinstance(parent, ast.BinOp) and node.value == 1):
        yield _with(node, value=node.value + 1)


def _of_test(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """A condition that is neither compared nor combined, turned round."""
    is_test = isinstance(parent, ast.If | ast.IfExp | ast.While) and node is parent.test
    if is_test and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _with(node: ast.AST, **changes: object) -> ast.AST:
    other = copy(node)
    for name, value in changes.items():
        setattr(other, name, value)
    return other
