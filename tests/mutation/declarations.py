"""Mutants of declarations: the rights in `@handles`, and the versions in which a message or a field exists.
Declarations are executed on import, so `declare` executes the changed one and installs its result.
"""

import ast
import gc
import sys
from collections.abc import Iterator
from dataclasses import fields
from types import FunctionType

import trimaran.wire.codec.build
import trimaran.wire.codec.declarations
import trimaran.wire.schema
from tests.mutation.operators import NEIGHBOURS, replaced
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import ResourceType
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.requests.access import Need, needs_of

# Parts of the names of tests that check rights or iterate over all messages: they depend on a declaration without
# executing any of its lines.
OF_RIGHTS = ("access", "denied", "authoriz", "test_served_versions")
# The test that compares the documented bounds with the code.
OF_BOUNDS = ("tests/test_limits.py",)
OF_MESSAGES = ("tests/wire/test_", "tests/wire/messages/", "tests/wire/records/")
EASED = {"with_error_of_whole", "or_cluster"}


# The expression shown to the reader, the expression that changes, and its replacement.
Change = tuple[ast.AST, ast.expr, ast.expr]


def changed_rights(decorator: ast.expr) -> Iterator[Change]:
    """Yields the mutants of `@handles(…)`: another right, a missing right, versions off by one."""
    match decorator:
        case ast.Call(func=ast.Name(id="handles"), keywords=keywords):
            for keyword in keywords:
                if keyword.arg == "versions":
                    yield from _versions(keyword, keyword.value)
                elif keyword.arg == "access":
                    for node in ast.walk(keyword.value):
                        yield from ((keyword, node, other) for other in _other_rights(node))


def _other_rights(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Attribute(value=ast.Name(id=kind), attr=name):
            if (other := NEIGHBOURS.get(kind, {}).get(name)) is not None:
                yield replaced(node, attr=other)
        case ast.Call(func=ast.Attribute(value=need, attr=name)) if name in EASED:
            yield need
        case ast.Tuple(elts=parts) if len(parts) > 1:
            for part in parts:
                yield replaced(node, elts=[other for other in parts if other is not part])


def changed_message(node: ast.ClassDef) -> Iterator[Change]:
    """Yields the mutants of the class of a message or struct: versions off by one, a field that no version has."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg in ("versions", "flexible"):
                    yield from _versions(keyword, keyword.value)
    for statement in node.body:
        match statement:
            case ast.AnnAssign(value=ast.Call(func=ast.Name(id="field"), args=[versions])):
                yield from _versions(statement, versions)
                yield statement, versions, replaced(versions, value="none")


def _versions(shown: ast.AST, node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Constant(value=str(text)):
            for other in _one_off(text):
                yield shown, node, replaced(node, value=other)


def _one_off(text: str) -> list[str]:
    """Returns changed version ranges: `"3-13"` begins one later or ends one earlier, `"9+"` begins one off."""
    if text == "none":
        return []
    if text.endswith("+"):
        low = int(text[:-1])
        return [f"{low + 1}+", *([f"{low - 1}+"] if low else [])]
    low, _, high = text.partition("-")
    if not high or low == high:
        return [f"{int(low) + 1}"]
    return [f"{int(low) + 1}-{high}", f"{low}-{int(high) - 1}"]


def declare(module_name: str, file: str, declared: ast.stmt, held: list[FunctionType]) -> bool:
    """Executes a changed declaration and installs its result; `held` are the functions of the original declaration."""
    module = sys.modules.get(module_name)
    if module is None:
        return False
    names = dict(vars(module))
    tree = ast.fix_missing_locations(ast.Module([declared], []))
    exec(compile(tree, file, "exec", dont_inherit=True), names)
    new = names[declared.name]
    if isinstance(new, type):
        return _put_struct(vars(module)[declared.name], new)
    # A function that another decorator wraps is reachable only through its name in the module.
    for function in dict.fromkeys([*held, vars(module)[declared.name]]):
        if (old := getattr(function, "__handles__", None)) is not None:
            _put_rights(needs_of(old.access), needs_of(new.__handles__.access))
            _put_versions(old, new.__handles__)
    return bool(held)


def _put_struct(old: type[Struct], new: type[Struct]) -> bool:
    for name in ("__fields__", "VERSIONS", "FLEXIBLE"):
        if hasattr(new, name):
            setattr(old, name, getattr(new, name))
    for message in Message.__subclasses__():
        if hasattr(message, "writers"):
            message.writers.clear()
            message.readers.clear()
    for module in (
        trimaran.wire.codec.build,
        trimaran.wire.schema,
        trimaran.wire.codec.declarations,
    ):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    return True


def _put_rights(old: tuple[Need, ...], new: tuple[Need, ...]) -> None:
    """Changes the existing needs in place, because guards refer to them. A need that is missing in the mutant requires
    nothing.
    """
    for number, need in enumerate(old):
        left_out = len(new) < len(old) and need not in new
        other = NOTHING if left_out else new[min(number, len(new) - 1)]
        if len(new) == len(old) or left_out:
            for field in fields(Need):
                object.__setattr__(need, field.name, getattr(other, field.name))


NOTHING = Need(ResourceType.TOPIC, ())


def _put_versions(old: object, new: object) -> None:
    gc.unfreeze()  # objects frozen by an earlier test are not listed
    for route in gc.get_referrers(old.request):
        if isinstance(route, Route) and route.request is old.request:
            object.__setattr__(route, "versions", new.versions)
    object.__setattr__(old, "versions", new.versions)
