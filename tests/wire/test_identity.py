"""A type checker distinguishes offsets, epochs, ids and partitions; at run time they are integers and pairs."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from mypy import api

from tests.test_tidy import ROOT
from trimaran.wire.identity import LeaderEpoch, Offset, TopicPartition

ROOMS = ["broker", "log", "node", "quorum", "spark", "trimaran", "wire", "zkcompat"]
REFUSED = Path(__file__).parent / "typing_tests" / "identity.py"
_ERROR = re.compile(r":(\d+): error: .*\[([a-z-]+)\]$")
_TOPICS, _INDEXES = {"topic", "topic_id"}, {"index", "partition", "partition_index"}
_NUMBERS = re.compile(
    r"(?:^|_)(?:offset|epoch|watermark|recovery_point|leader_end|producer_id|(?:node|broker|leader|follower|replica|controller|voter)_id)s?$"
)
_NO_IDENTITY = re.compile(
    r"(?:dict|Mapping)\[int, |"  # the key, which is the index of a partition or of a session
    r"Callable\[\[.*?\]|"  # the parameters; the result counts
    r"array\[int\]"  # its elements are not typed any better
)
_INTEGER = re.compile(r"\bint(?:8|16|32|64)?\b")
_UNTYPED = {
    "max_num_offsets",  # a count
    *("reset_offsets", "delete_offsets", "migrate_offsets"),  # commands: the result is an exit code
    "generation_id_or_member_epoch",  # which of the two depends on the group
}
_EXPECTED = re.compile(r"# error: (.*)$")


@pytest.mark.slow(seconds=10)
def test_mypy_refuses_mixed_up_identities():
    """The cache is shared with `./dev lint`."""
    options = [
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
    ]
    limit = sys.getrecursionlimit()
    try:
        report, errors, _ = api.run([*options, "--no-pretty", "--show-error-codes", str(REFUSED)])
    finally:
        sys.setrecursionlimit(limit)  # mypy raises it to 16,384 for all of this process
    assert errors == ""
    found = Counter((int(m[1]), m[2]) for m in map(_ERROR.search, report.splitlines()) if m)
    expected = Counter(
        (number, code)
        for number, line in enumerate(REFUSED.read_text().splitlines(), 1)
        if (m := _EXPECTED.search(line))
        for code in m[1].split(", ")
    )
    assert found == expected, report


def test_identities_are_plain_integers_at_run_time():
    assert type(Offset(5)) is type(LeaderEpoch(5)) is int


def test_partition_equals_its_pair_and_has_a_name():
    partition = TopicPartition("orders", 3)
    assert partition == ("orders", 3)
    assert {partition: 1}["orders", 3] == 1
    assert str(partition) == "orders-3"


@pytest.mark.parametrize("room", ROOMS)
def test_partition_is_one_argument(room):
    """A command whose partition is `Annotated` takes topic and number separately: they are two words of the command
    line.
    """
    apart = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and {"str", "bytes"} & _plain(function, _TOPICS)
        and "int" in _plain(function, _INDEXES)
    ]
    assert not apart


@pytest.mark.parametrize("room", ROOMS)
def test_pair_of_name_and_number_has_type(room):
    """A `tuple[str, int]` may be a partition, an address, a level of a feature, …"""
    bare = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / room).rglob("*.py"))
        if "tuple[str, int]" in path.read_text()
    ]
    assert not bare


@pytest.mark.parametrize("room", ROOMS)
def test_offsets_epochs_and_ids_have_types(room):
    """The rule is by name: of parameters, of results (the name of the function), and of fields."""
    plain = [
        f"{path.relative_to(ROOT)}:{line} {name}: {annotation}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, name, annotation in _annotated(ast.parse(path.read_text()))
        if _NUMBERS.search(name) and name not in _UNTYPED
        if _INTEGER.search(_NO_IDENTITY.sub("", annotation))
    ]
    assert not plain


def _annotated(tree):
    """Yields the line, the name and the annotation of parameters, results, fields and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            yield node.lineno, node.arg, ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            yield node.lineno, node.name, ast.unparse(node.returns)
        elif isinstance(node, ast.AnnAssign):
            name = ast.unparse(node.target).rpartition(".")[2]
            yield node.lineno, name, ast.unparse(node.annotation)


def _plain(function, names):
    """Returns the annotations of the parameters that have one of these names."""
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {ast.unparse(one.annotation) for one in arguments if one.arg in names and one.annotation}
