"""Mapping of tests to the rows of sections 4.1 and 4.2: hostile frames and hostile values.

The id of a row is in the names of its tests (`test_me1_…`), in this package or in `tests.wire`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
FOLDERS = (TESTS / "badinput", TESTS / "wire")

ROWS = {
    "mf1": "frame sizes below zero",
    "mf2": "frame size zero, no room for a header",
    "mf4": "a legal size, and bytes that trickle or stop",
    "mf5": "other protocols on the port",
    "mf6": "the end or a reset at every byte",
    "mf7": "requests by the thousand without reading answers",
    "mf9": "unknown keys, keys of another listener, versions out of range",
    "mf10": "correlation ids negative, twice, on two connections",
    "mf11": "client ids null, long, not UTF-8, with control characters",
    "me1": "counts beyond what is there",
    "me3": "millions of tags before authentication",
    "me4": "tags negative, too long, twice, out of order, of another version",
    "me5": "varints that do not end, overlong varints",
    "me6": "string sizes that lie, text that is not UTF-8, names that are none",
    "me8": "booleans of 2, NaN, reserved ids, integers at their ends",
    "me9": "large nesting, the same partition many times",
    "me10": "empty arrays where one element is assumed",
    "me11": "hostile answers to our own clients",
}


def names_of_tests() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted(folder.rglob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name


def rows_of(name: str) -> list[str]:
    """Returns the row ids at the beginning of a test's name: mf1 and mf2 of `test_mf1_mf2_sizes`."""
    head = re.match(r"test((?:_m[ef]\d+)+)_", name)
    return head[1][1:].split("_") if head else []


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_test(row):
    assert any(row in rows_of(name) for name in names_of_tests()), ROWS[row]


def test_every_test_row_exists_in_table():
    assert {row for name in names_of_tests() for row in rows_of(name)} <= set(ROWS)


def test_rows_are_read_from_names():
    assert rows_of("test_mf1_mf2_sizes") == ["mf1", "mf2"]
    assert rows_of("test_me10_nothing") == ["me10"]
    assert rows_of("test_sizes_mf1") == []
