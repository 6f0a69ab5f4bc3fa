"""The files of the ready plans, their table on the page, and the errors of wrong plans and values."""

import re
from pathlib import Path

import pytest

from tests import datadriven
from tests.checks import check_each
from trimaran.errors.user_error import UserError
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.plan_error import PlanError
from trimaran.faults.plan_file import parse_plan, plan_text
from trimaran.faults.ready_plans import find_plan, plan_keys, plan_names, ready_plan, story_rows
from trimaran.testing.faults import KafkaFaults

PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
SECTION = re.compile(r"(?<=\n## Ready plans\n)(.*?)(\n\| plan \|.*?\n)?(?=\n## )", re.DOTALL)
SOURCE = re.compile(r"KIP-\d+|KAFKA-\d+|[\w-]+/[\w-]+#\d+")


def check_plan(name):
    plan = ready_plan(name)
    story = plan.story
    assert story.title, name
    assert story.shows, name
    assert story.replays, name
    assert all(SOURCE.fullmatch(source) for source in story.replays), story.replays
    assert all(rule.name.startswith(name) for rule in plan.rules), plan.rules
    assert not any(rule.observes_only for rule in plan.rules), name
    assert parse_plan(plan_text(plan)) == plan


def test_every_plan_has_sources_and_expected_behaviour():
    check_each(plan_names(), check_plan)
    assert len(plan_names()) >= 30


def table():
    rows = ["| plan | fault | repeats | a correct client |", "|---|---|---|---|"]
    rows += [
        f"| `{row['plan']}` | {row['title']} | {row['replays']} | {row['shows']} |"
        for row in story_rows()
    ]
    return "\n" + "\n".join(rows) + "\n"


def test_page_has_every_ready_plan():
    text = PAGE.read_text()
    found = SECTION.search(text)
    if datadriven.REWRITE:
        PAGE.write_text(text[: found.end(1)] + table() + text[found.end() :])
        return
    assert found[2] == table()


def test_values_replace_those_of_all_rules():
    plan = ready_plan("coordinator-moves", group="billing")
    assert [rule.match.group for rule in plan.rules] == ["billing"] * 3
    assert plan_keys(plan) == ["api", "group", "error", "times"]
    (rule,) = ready_plan("commit-answered-late", delay=5, times=2).rules
    assert (rule.given["delay"], rule.given["group"], rule.times) == (5, "*", 2)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("leader-move", {}, "did you mean leader-moves?"),
        ("leader-moves", {"group": "billing"}, "no key of the plan leader-moves 'group'"),
        ("leader-moves", {"times": -1}, "times is -1"),
    ],
)
def test_unknown_names_and_keys_are_refused(name, values, message):
    with pytest.raises(PlanError) as caught:
        ready_plan(name, **values)
    assert message in f"{caught.value.why} {caught.value.fix}"


def test_plan_is_found_by_name_or_file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('title = "own"\n[[rules]]\napi = "Fetch"\ndelay = 1\n')
    assert find_plan(file).story.title == "own"
    assert find_plan("leader-moves") == ready_plan("leader-moves")
    with pytest.raises(UserError) as caught:
        find_plan("leader-movs")
    assert caught.value.fix == "did you mean leader-moves?"


def test_ready_plan_keeps_the_seed_of_the_test():
    faults = KafkaFaults(FaultSet(seed=9))
    (rule,) = faults.add_plan("leader-moves", topic="orders")
    assert (rule.name, faults.seed) == ("leader-moves", 9)
    with pytest.raises(PlanError, match="rule refused"):
        faults.add_plan("leader-moves")
    moves = faults.add_plan("coordinator-moves", name="second", group="billing")
    assert [rule.name for rule in moves] == ["second-join", "second-sync", "second-commit"]


@pytest.mark.parametrize(
    ("line", "place"),
    [("title = 1", "plan:1:1"), ("shows = []", "plan:1:1"), ('replays = "KIP-98"', "plan:1:1")],
)
def test_story_key_of_wrong_type_is_refused(line, place):
    with pytest.raises(PlanError) as caught:
        parse_plan(line)
    assert caught.value.what == f"{place}: rule refused"
