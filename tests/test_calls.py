"""The number of calls per request does not grow unnoticed: `./dev bench calls` counts them, `bench/calls.toml` has the
limits.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from bench.calls import MARKS, measure
from bench.counting import Calls
from tests import datadriven

SPREAD = 0.02
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
TABLE = re.compile(r"^\| request \| calls \| files \|\n(?:\|.*\n)+", re.MULTILINE)
# CPython 3.12 runs comprehensions without a call.
AS_MARKED = sys.version_info[:2] == (3, 11)


def called():
    """Does nothing."""


def test_only_function_calls_in_block_are_counted():
    calls = Calls()
    with calls.counting():
        divmod(1, 2)
        called()
        called()
    counts = calls.take()
    assert counts.calls == 2
    assert (counts.functions, counts.files) == (0, 0)
    assert calls.take().calls == 0


def test_calls_before_mark_are_separate():
    calls = Calls()
    with calls.counting(lambda function: function is divmod and calls.mark()):
        called()
        divmod(1, 2)
        called()
    counts = calls.take()
    assert counts.calls - counts.marked == 1


def test_page_has_the_mark_of_each_request():
    marks = tomllib.loads(MARKS.read_text())
    rows = [f"| {name} | {mark['answered']:,} | {mark['files']} |" for name, mark in marks.items()]
    table = "\n".join(["| request | calls | files |", "|---|---|---|", *rows, ""])
    page = PAGE.read_text()
    if datadriven.REWRITE:
        page = TABLE.sub(table, page)
        PAGE.write_text(page)
    assert TABLE.findall(page) == [table]


@pytest.mark.slow(seconds=20)
def test_no_request_takes_more_calls_than_its_mark():
    marks = tomllib.loads(MARKS.read_text())
    measured = {name: row for name, (row, _) in measure().items()}
    assert measured.keys() == marks.keys()
    for name, mark in marks.items():
        answered, files = measured[name].answered, measured[name].files
        settled = measured[name].calls
        spread = mark.get("spread", SPREAD)
        seen = f"{name}: {answered} calls in {files} files, {settled} until nothing is left to do"
        assert answered <= mark["answered"] * (1 + spread), (
            f"{seen}; the mark is {mark['answered']}"
        )
        assert settled <= mark.get("settled", settled) * (1 + spread), f"{seen}; see {MARKS.name}"
        assert files <= mark["files"] + 1, f"{seen}; the mark is {mark['files']} files"
        is_low = AS_MARKED and answered < mark["answered"] * (1 - 2 * spread)
        assert not is_low, f"{seen}; lower the mark of {mark['answered']} in {MARKS.name}"
