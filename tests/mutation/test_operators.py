"""Source in, mutants out: one case for each kind of mistake."""

import os
import sys
from types import ModuleType

import pytest

from tests.mutation.mutants import mutants_of
from tests.mutation.running import _in_child, swap
from trimaran.wire.codec.declarations import Versions


@pytest.fixture
def changes(tmp_path):
    """Returns the changes of the mutants of a source text."""

    def of(code: str) -> list[str]:
        path = tmp_path / "some.py"
        path.write_text(code)
        return [mutant.change for mutant in mutants_of(path, "some")]

    return of


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("return a is None", ["a is None -> a is not None"]),
        ("return a and b", ["a and b -> b", "a and b -> a", "a and b -> a or b"]),
        ("return not a", ["return not a -> return a"]),
        ("return max(a, b)", ["max(a, b) -> min(a, b)", "max(a, b) -> b", "max(a, b) -> a"]),
        ("return min(a)", ["min(a) -> max(a)"]),
        ("return a + 1", ["a + 1 -> a"]),
        ("return a - b", ["a - b -> a + b"]),
        ("return True", ["return True -> return False"]),
        ("return -1", ["return -1 -> return -2"]),
        ("return f(a, b=2)", ["f(a, b=2) -> f(a, b=3)"]),
        ("f(a)\n  f(a)", ["f(a) -> (left out)", "f(a) -> (left out)  #2"]),
        ("if a:\n    b()", ["a -> not a", "b() -> (left out)"]),
        ("assert a < b", []),
        ("return zip(a, b, strict=True)", []),
        ("return g(a, strict=False)", ["g(a, strict=False) -> g(a, strict=True)"]),
        ("log.info('%d', a + 1)", []),
        ("events.SOMETHING.log(log, count=a + 1)", []),
        ("event.log(log, count=a + 1)", []),
        ("self._log.log(events.SOMETHING, count=a + 1)", []),
        ("'''More than 1.'''", []),
    ],
)
def test_comparisons_conditions_numbers_and_calls_change(changes, code, expected):
    assert changes(f"def function(a, b=1):\n  {code}\n") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a.b = c", ["a.b = c -> (left out)"]),
        ("a[b] = c", ["a[b] = c -> (left out)"]),
        ("a += b", ["a += b -> a -= b", "a += b -> (left out)"]),
        ("del a[b]", ["del a[b] -> (left out)"]),
        ("if a:\n    raise b", ["a -> not a", "raise b -> (left out)"]),
        ("if a:\n    return b", ["a -> not a", "return b -> (left out)"]),
        ("for a in b:\n    continue", ["continue -> (left out)"]),
        ("a = b", []),
        ("return a", []),
    ],
)
def test_statement_is_removed(changes, code, expected):
    assert changes(f"def function(a, b, c):\n  {code}\n") == expected


def test_attribute_set_by_constructor_is_not_changed(changes):
    assert changes("class Some:\n  def __init__(self, a):\n    self.a = a\n") == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("await a()\n  await b()", ["await a(); await b() -> await b(); await a()"]),
        ("a()\n  b()", ["a(); b() -> b(); a()"]),
        ("c = await a()\n  await b()", ["c = await a(); await b() -> await b(); c = await a()"]),
        ("c = await a()\n  await b(c)", []),
        ("a()\n  a()", []),
        ("a()\n  log.info(b)", []),
        ("c.start_soon(a)\n  c.start_soon(b)", []),
        ("c.start_soon(a)\n  b()", ["c.start_soon(a); b() -> b(); c.start_soon(a)"]),
    ],
)
def test_two_neighbouring_statements_are_swapped(changes, code, expected):
    found = changes(f"async def function():\n  {code}\n")
    assert [item for item in found if ";" in item] == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return 30", ["return 30 -> return 31", "return 30 -> return 30000"]),
        ("return 0.5", ["return 0.5 -> return 500.0"]),
        ("return 0.0", []),  # zero multiplied by a thousand is still zero
        ("return 3", ["return 3 -> return 4"]),
        ("yield 1", []),  # the amount of work of a step
        ("return a * 1000", ["a * 1000 -> a"]),
        ("return a / 1_000_000", ["a / 1000000 -> a"]),
        ("return 1000 * a", ["1000 * a -> a"]),
    ],
)
def test_time_or_size_gets_wrong_unit(changes, code, expected):
    assert set(expected) <= set(changes(f"def function(a):\n  {code}\n"))


def test_constants_change_by_one_sizes_by_factors(changes):
    code = "NONE = -1\nSIZE = 1 << 20\nSECONDS = 0.5\nNAME = 'a'\n"
    assert changes(code) == [
        "-1 -> 0",
        "1 << 20 -> 2097152",
        "1 << 20 -> 1048576000",
        "0.5 -> 1.0",
        "0.5 -> 500.0",
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ErrorCode.NOT_COORDINATOR", "ErrorCode.INVALID_TOPIC_EXCEPTION"),
        ("Operation.WRITE", "Operation.DESCRIBE"),
        ("Operation.DESCRIBE_CONFIGS", "Operation.DESCRIBE"),
        ("Operation.DESCRIBE", "Operation.READ"),
        ("ResourceType.TOPIC", "ResourceType.GROUP"),
    ],
)
def test_code_or_right_becomes_its_neighbour(changes, code, expected):
    assert changes(f"def function():\n  return {code}\n") == [f"{code} -> {expected}"]


def test_version_is_off_by_one_in_both_directions(changes):
    assert changes("def function(version):\n  return version == 3\n") == [
        "version == 3 -> version != 3",
        "version == 3 -> version == 4",
        "version == 3 -> version == 2",
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("sorted(a)", ["list(a)", "sorted(a, reverse=True)"]),
        ("sorted(a, reverse=b)", ["list(a)", "sorted(a)"]),
        (
            "sorted(a, key=b)",
            ["list(a)", "sorted(a, key=b, reverse=True)", "sorted(a)"],
        ),
        ("max(a, key=b)", ["min(a, key=b)", "max(a)"]),
        ("a.sort(key=b)", ["a.sort(key=b, reverse=True)", "a.sort()"]),
        (
            "lambda: (a, b)",
            ["(None, b)", "(a, None)"],
        ),
    ],
)
def test_order_is_changed_or_lost(changes, code, expected):
    shown = code.removeprefix("lambda: ")
    found = changes(f"def function(a, b):\n  return {code}\n")
    assert found == [f"{shown} -> {item}" for item in expected]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("{'a': a, 'b': b}", ["{'b': b}", "{'a': a}"]),
        ("Some(a=a, b=b)", ["Some(b=b)", "Some(a=a)"]),
        ("a.replace(b=b)", ["a.replace()"]),
        ("Some(a=None, b='', c=[], d=ErrorCode.NONE)", []),
        ("some(a=a)", []),
    ],
)
def test_field_is_dropped(changes, code, expected):
    found = changes(f"def function(a, b):\n  return {code}\n")
    dropped = [item for item in found if item.startswith(f"{code} -> ")]
    assert dropped == [f"{code} -> {item}" for item in expected]


@pytest.mark.parametrize(
    "code",
    ["cache[a, b]", "cache.get((a, b))", "(a, b) in cache", "cache.setdefault((a, b), [])"],
)
def test_key_loses_one_part(changes, code):
    found = changes(f"def function(cache, a, b):\n  return {code}\n")
    assert [item for item in found if "None" in item] == [
        "(a, b) -> (None, b)",
        "(a, b) -> (a, None)",
    ]


def test_types_and_non_key_tuples_are_unchanged(changes):
    assert (
        changes("def function(a):\n  b: dict[str, int] = a\n  return Mapping[a, b], (a, b)\n") == []
    )
    assert changes("def function(a):\n  if TYPE_CHECKING:\n    import b\n  cast(int, a)\n") == []


HANDLER = """
@handles(Request, versions="{versions}", access={access})
def handler(request, context, call):
    return None
"""


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ("3-13", ["4-13", "3-12"]),
        ("0", ["1"]),
    ],
)
def test_handler_versions_are_off_by_one(changes, versions, expected):
    found = changes(HANDLER.format(versions=versions, access="BY_CONTROLLER"))
    assert found == [f"versions='{versions}' -> versions='{item}'" for item in expected]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (
            "groups(Operation.READ, 'group_id')",
            ["groups(Operation.DESCRIBE, 'group_id')"],
        ),
        ("cluster(Operation.CREATE)", ["cluster(Operation.ALTER)"]),
        ("(a, b)", ["(b,)", "(a,)"]),
        ("a.or_cluster(b)", ["a"]),
    ],
)
def test_handler_rights_are_replaced(changes, access, expected):
    found = changes(HANDLER.format(versions="none", access=access))
    assert found == [f"access={access} -> access={item}" for item in expected]


MESSAGE = """
@request(key=1, versions="0-2", flexible="2+")
class SomeRequest(Message):
    always: int32
    later: int32 = field("1+", default=-1)
"""


def test_message_and_field_versions_are_changed(changes):
    field = "later: int32 = field('{}', default=-1)"
    assert changes(MESSAGE) == [
        "versions='0-2' -> versions='1-2'",
        "versions='0-2' -> versions='0-1'",
        "flexible='2+' -> flexible='3+'",
        "flexible='2+' -> flexible='1+'",
        *(f"{field.format('1+')} -> {field.format(item)}" for item in ("2+", "0+", "none")),
    ]


WRAPPED = """
from functools import wraps
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.security.acls import Operation

def when_ready(handler):
    @wraps(handler)
    def waiting(*arguments):
        return handler(*arguments)
    return waiting

@handles(HeartbeatRequest, versions="0-4", access=groups(Operation.READ, "group_id"))
@when_ready
def heartbeat(request, ctx, call):
    return request
"""


def test_declaration_of_wrapped_handler_is_replaced(tmp_path, monkeypatch):
    """The handler is behind the wrapper of the other decorator, which is usually in another file."""
    path = tmp_path / "wrapped.py"
    path.write_text(WRAPPED)
    module = ModuleType("wrapped")
    exec(compile(WRAPPED, str(path), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "wrapped", module)
    declared = module.heartbeat.__handles__
    (mutant,) = [item for item in mutants_of(path, "wrapped") if "-> versions='0-3'" in item.change]
    own = module.heartbeat.__wrapped__

    def put_in_place():
        """Installs it in a separate process, because the change to the registries is permanent."""
        is_there = swap(mutant, {(str(path.resolve()), mutant.function_line): [own]})
        return 0 if is_there and declared.versions == Versions(0, 3) else 1

    assert os.waitstatus_to_exitcode(_in_child(put_in_place)) == 0
