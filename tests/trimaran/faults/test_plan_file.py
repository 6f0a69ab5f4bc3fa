"""Plan files in TOML."""

import pytest

from trimaran.faults import plan_file
from trimaran.faults.plan_error import PlanError
from trimaran.faults.plan_file import parse_plan, plan_text

PLAN = """\
seed = 7

[[rules]]
api = "Fetch"
topic = "orders"
error = "NOT_LEADER_OR_FOLLOWER"
times = 3

[[rules]]
name = "slow"
api = ["Produce", 1]
where = ["acks == 1"]
sequence = [{ delay = [0.1, 0.2] }, {}]
"""


def test_plan_has_seed_and_rules():
    plan = parse_plan(PLAN)
    assert plan.seed == 7
    assert [rule.name for rule in plan.rules] == ["rule-1", "slow"]
    assert [rule.times for rule in plan.rules] == [3, None]
    assert parse_plan("").rules == ()


def test_plan_survives_being_written_and_read():
    plan = parse_plan(PLAN)
    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("seed = ", "p.toml:1:8", "Invalid value"),
        ('[[rules]]\napi = "Fetch', "p.toml:2:13", "nterminated"),
        ("sed = 7", "p.toml:1:1", "no key of a plan 'sed'"),
        ("seed = -1", "p.toml:1:1", "seed is -1"),
        ("rules = 3", "p.toml:1:1", "no list of tables"),
        ('seed = 1\n[[rules]]\n  api = "Fecth"', "p.toml:3:3", "no API 'Fecth'"),
        (PLAN.replace("acks", "ack"), "p.toml:12:1", "no field of ProduceRequest 'ack'"),
        (PLAN.replace("{}]", '{ eror = "X" }]'), "p.toml:13:39", "no action 'eror'"),
        (PLAN + '[[rules]]\nname = "slow"\n', "p.toml:15:1", "two rules"),
        ('[[rules]]\n\napi="Fetch"\nversion=99', "p.toml:4:1", "no version 99"),
    ],
)
def test_error_names_line_and_column(text, place, why):
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.toml")
    assert caught.value.what == f"{place}: rule refused"
    assert why in caught.value.why


def test_bounds_of_plan_are_kept(monkeypatch):
    monkeypatch.setattr(plan_file, "RULES_MAX", 1)
    with pytest.raises(PlanError, match="rule refused") as caught:
        parse_plan(PLAN)
    assert "there are 2 rules" in caught.value.why
    monkeypatch.setattr(plan_file, "PLAN_BYTES_MAX", 10)
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN)
    assert "too large" in caught.value.why


def test_script_is_a_comment_in_a_plan():
    def answer(_seen):
        return None

    from_keywords = plan_file.parse_rule({"api": "Fetch", "script": answer}, name="s")
    text = plan_text(plan_file.FaultPlan((from_keywords,), 3))
    assert "# script = answer" in text
    assert parse_plan(text).seed == 3
