"""Small mistakes in one node of a function, like those that programmers make. `mutations` yields replacements for a
node, `swaps` those for a list of statements. Changes that no test could notice (texts, logged or printed values, types)
are not made, and neither are those of a measure: the amount of work after which a step ends (`yield 1`).
"""

import ast
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import pairwise

from trimaran.wire.errors import ErrorCode

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
UNITS = {1000, 1_000_000, 1_000_000_000}
# Each key may be confused with its value, which is usually an implied right or its counterpart.
OPERATIONS = {
    "READ": "DESCRIBE",
    "WRITE": "DESCRIBE",
    "CREATE": "ALTER",
    "DELETE": "ALTER",
    "ALTER": "DESCRIBE",
    "DESCRIBE": "READ",
    "CLUSTER_ACTION": "ALTER",
    "DESCRIBE_CONFIGS": "DESCRIBE",
    "ALTER_CONFIGS": "ALTER",
    "IDEMPOTENT_WRITE": "WRITE",
    "CREATE_TOKENS": "DESCRIBE_TOKENS",
    "DESCRIBE_TOKENS": "CREATE_TOKENS",
    "TWO_PHASE_COMMIT": "WRITE",
}
_CODES = [code.name for code in ErrorCode]
NEIGHBOURS = {
    "Operation": OPERATIONS,
    "ErrorCode": dict(zip(_CODES, [*_CODES[1:], _CODES[0]], strict=True)),
    "ResourceType": {
        "TOPIC": "GROUP",
        "GROUP": "TOPIC",
        "CLUSTER": "TOPIC",
        "TRANSACTIONAL_ID": "GROUP",
        "DELEGATION_TOKEN": "USER",
        "USER": "DELEGATION_TOKEN",
    },
}
# A tuple passed to one of these is a key.
ASKED_BY_KEY = {"get", "pop", "setdefault", "add", "discard", "remove"}
CALLS = (ast.Call, ast.Await)


def is_no_behaviour(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr():
            return True
        # `zip` asserts that the lengths are equal.
        case ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Name(id="cast")):
            return not any(isinstance(arg, ast.Call | ast.Attribute) for arg in node.args[1:])
        case ast.Call(func=ast.Attribute(value=value, attr="log"), args=args):
            texts = (ast.unparse(part) for part in (value, *args))
            return any(text == "log" or text.startswith("events.") for text in texts)
        case ast.Call(func=ast.Attribute(value=value, attr=level)):
            logs = isinstance(value, ast.Name) and value.id == "log"
            return logs and level in ("debug", "info", "warning", "error", "exception")
    return False


def mutations(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    yield from _of_logic(node)
    yield from _of_sums_and_calls(node, parent)
    yield from _of_test(node, parent)
    yield from _of_unit(node)
    yield from _of_order(node)
    yield from _of_fields(node)
    yield from _of_neighbour(node)
    if _is_key(node, parent):
        yield from _of_key(node)
    if _can_be_left_out(node, parent):
        yield ast.copy_location(ast.Pass(), node)


def _of_logic(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield replaced(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield from _without_one(node, "values", values)
            yield replaced(node, op=OPPOSITES[type(op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand


def _of_sums_and_calls(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args) if name in EXTREMES:
            yield replaced(node, func=replaced(node.func, id=EXTREMES[name]))
            yield from _without_one(node, "args", args)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield from _of_sum(node)
        case ast.AugAssign(op=ast.Add() | ast.Sub()) if not isinstance(node.value, TEXTS):
            yield replaced(node, op=OPPOSITES[type(node.op)]())
        case ast.Constant(value=int()) if not isinstance(parent, ast.Yield):
            yield from _of_number(node, parent)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            if not is_no_behaviour(node.value):
                yield ast.copy_location(ast.Pass(), node)


def swaps(statements: list[ast.stmt]) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Yields the index of the first of two adjacent statements with effects, and the list with the two swapped. Skips a
    pair if the second uses a name that the first defines, because every test would notice, and a pair that starts two
    tasks, because trio runs them in any order.
    """
    for index, (first, second) in enumerate(pairwise(statements)):
        needs = _names(first, ast.Store) & _names(second)
        tasks = _starts_task(first) and _starts_task(second)
        have_order = not needs and not tasks and ast.dump(first) != ast.dump(second)
        if _acts(first) and _acts(second) and have_order:
            yield index, [*statements[:index], second, first, *statements[index + 2 :]]


def _acts(node: ast.stmt) -> bool:
    """Whether a statement awaits, or is a call whose result is not used."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, CALLS) and not is_no_behaviour(node.value)
    is_plain = isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
    return is_plain and isinstance(node.value, ast.Await)


def _starts_task(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="start_soon"))):
            return True
    return False


def _names(node: ast.AST, context: type[ast.expr_context] = ast.expr_context) -> set[str]:
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, context)}


def _without_one(node: ast.AST, name: str, parts: list[ast.expr]) -> Iterator[ast.AST]:
    """Yields `node` without each of its parts in turn, or just the other part if there are only two."""
    for index in range(len(parts) if len(parts) > 1 else 0):
        rest = [*parts[:index], *parts[index + 1 :]]
        yield rest[0] if len(rest) == 1 else replaced(node, **{name: rest})


def _of_sum(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.right, ast.Constant) and node.right.value == 1:
        yield node.left
    elif not isinstance(node.left, TEXTS) and not isinstance(node.right, TEXTS):
        yield replaced(node, op=OPPOSITES[type(node.op)]())


def _of_number(node: ast.Constant, parent: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):  # a subclass of int
        yield replaced(node, value=not node.value)
    elif not (isinstance(parent, ast.BinOp) and node.value == 1):
        yield replaced(node, value=node.value + 1)
        if isinstance(parent, ast.Compare) and _tells_version(parent):
            yield replaced(node, value=node.value - 1)


def _tells_version(node: ast.Compare) -> bool:
    return any("version" in ast.unparse(part) for part in (node.left, *node.comparators))


def _of_test(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """Negates a condition that is neither a comparison nor a combination."""
    is_test = isinstance(parent, ast.If | ast.IfExp | ast.While) and node is parent.test
    if is_test and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _of_unit(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a time or size multiplied by a thousand, and a value whose unit conversion is missing."""
    match node:
        case ast.Constant(value=int() | float() as value):
            is_amount = (isinstance(value, float) and value != 0) or value >= 10
            if not isinstance(value, bool) and is_amount:
                yield replaced(node, value=value * 1000)
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv(), left=left, right=right):
            if isinstance(right, ast.Constant) and right.value in UNITS:
                yield left
            elif isinstance(left, ast.Constant) and left.value in UNITS:
                yield right


def _of_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the call without sorting, with another key, or in reverse order."""
    match node:
        case ast.Call(func=ast.Name(id="sorted"), args=[what], keywords=keywords):
            yield replaced(node, func=replaced(node.func, id="list"), args=[what], keywords=[])
            yield from _sorted_otherwise(node, keywords)
        case ast.Call(func=ast.Attribute(attr="sort"), args=[], keywords=keywords):
            yield from _sorted_otherwise(node, keywords)
        case ast.Call(func=ast.Name(id="min" | "max"), keywords=keywords):
            yield from _without_key(node, keywords)


def _sorted_otherwise(node: ast.Call, keywords: list[ast.keyword]) -> Iterator[ast.AST]:
    rest = [keyword for keyword in keywords if keyword.arg != "reverse"]
    other = [ast.keyword("reverse", ast.Constant(True))] if len(rest) == len(keywords) else []
    yield replaced(node, keywords=[*rest, *other])
    yield from _without_key(node, keywords)


def _without_key(node: ast.Call, keywords: list[ast.keyword]) -> Iterator[ast.AST]:
    if any(keyword.arg == "key" for keyword in keywords):
        yield replaced(node, keywords=[keyword for keyword in keywords if keyword.arg != "key"])


def _of_fields(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the node without a field that is written or copied, so that the field has its default."""
    match node:
        case ast.Dict(keys=keys, values=values):
            for index in range(len(keys)):
                yield replaced(
                    node,
                    keys=[*keys[:index], *keys[index + 1 :]],
                    values=[*values[:index], *values[index + 1 :]],
                )
        case ast.Call(func=func, keywords=keywords) if _makes_struct(func):
            for index, keyword in enumerate(keywords):
                if not _is_empty(keyword.value):
                    yield replaced(node, keywords=[*keywords[:index], *keywords[index + 1 :]])


def _makes_struct(func: ast.expr) -> bool:
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name in ("replace", "_replace") or (name[:1].isupper() and not name.isupper())


def _is_empty(node: ast.expr) -> bool:
    """Whether this is the usual default of a field, so that removing it changes nothing."""
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Attribute(attr="NONE"):
            return True
    return False


def _of_neighbour(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Attribute(value=ast.Name(id=kind), attr=name) if kind in NEIGHBOURS:
            if (other := NEIGHBOURS[kind].get(name)) is not None:
                yield replaced(node, attr=other)


def _is_key(node: ast.AST, parent: ast.AST) -> bool:
    if not isinstance(node, ast.Tuple) or not isinstance(node.ctx, ast.Load):
        return False
    match parent:
        case ast.Subscript(slice=what, value=ast.Name(id=name)):
            return what is node and not name[:1].isupper() and name not in ("list", "dict", "tuple")
        case ast.Subscript(slice=what):
            return what is node
        case ast.Assign(targets=[ast.Name(id=name)]):
            return "key" in name
        case ast.Lambda(body=body):
            return body is node
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
            return left is node
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]):
            return name in ASKED_BY_KEY and first is node
    return False


def _of_key(node: ast.Tuple) -> Iterator[ast.AST]:
    """Yields keys in which one part is constant."""
    for index, part in enumerate(node.elts):
        if not isinstance(part, ast.Constant | ast.Slice | ast.Starred):
            elements: Iterable[ast.expr] = (
                *node.elts[:index],
                ast.Constant(None),
                *node.elts[index + 1 :],
            )
            yield replaced(node, elts=list(elements))


def _can_be_left_out(node: ast.AST, parent: ast.AST) -> bool:
    """Whether a statement other than a call can be removed: an assignment, a deletion, a `raise`, or an early exit."""
    is_nested = not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    match node:
        case ast.Assign(targets=targets):
            is_first = getattr(parent, "name", "") in ("__init__", "__post_init__")
            return not is_first and all(
                not isinstance(target, ast.Name | ast.Tuple) for target in targets
            )
        case ast.AugAssign() | ast.Delete():
            return True
        case ast.Raise(exc=exc):
            return exc is None or is_nested
        case ast.Return():
            return is_nested
        case ast.Continue() | ast.Break():
            return True
    return False


def replaced(node: ast.AST, **changes: object) -> ast.AST:
    """Returns a shallow copy with some fields changed."""
    other = copy(node)
    for name, value in changes.items():
        setattr(other, name, value)
    return other
