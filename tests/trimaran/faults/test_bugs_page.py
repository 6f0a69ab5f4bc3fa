"""The bugs of clients on docs/faults.md are those that `./dev interop -k client_bugs` finds again."""

import re
import tomllib
from pathlib import Path

from tests import datadriven
from tests.checks import check_each
from tests.interop.client_bugs.page import markdown_table
from tests.interop.client_bugs.table import BUGS
from trimaran.faults.ready_plans import plan_names
from trimaran.faults.rule_parser import parse_rule

PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
TABLE = re.compile(
    r"(?<=\n## Bugs that were found again\n)((?:[^|\n].*\n|\n)*)((?:\|.*\n)*)\n(?=## )"
)


def test_page_has_every_bug():
    text = PAGE.read_text()
    found = TABLE.search(text)
    if datadriven.REWRITE:
        PAGE.write_text(text[: found.start(2)] + markdown_table() + text[found.end(2) :])
        return
    assert found[2] == markdown_table()


def test_every_plan_of_a_bug_is_understood():
    def check_plan(bug):
        if bug.is_ready_plan:
            assert bug.plan in plan_names(), bug
        else:
            assert parse_rule(tomllib.loads(bug.plan), "bug").name, bug
        assert bug.shown != bug.passed, bug

    check_each(BUGS, check_plan)
    assert len(BUGS) >= 12
