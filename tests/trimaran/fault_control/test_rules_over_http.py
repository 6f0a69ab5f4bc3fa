"""Rules, observations, traces and plans over HTTP, with a real client of Kafka at work."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimaran.fault_control.requests import fitting
from trimaran.faults.plan_error import PlanError
from trimaran.faults.rule_parser import RULE_KEYS, parse_rule
from trimaran.faults.rules import FaultRule
from trimaran.wire.errors import ErrorCode, KafkaError

REFUSED = {"name": "a", "api": "CreateTopics", "error": "NOT_CONTROLLER", "times": 1}


def test_added_rule_applies_and_counts(control, kafka):
    status, added = control.ask("POST", "/rules", {**REFUSED, "error": "INVALID_TOPIC_EXCEPTION"})
    assert status == 201
    assert (added["name"], added["matched"], added["applied"]) == ("a", 0, 0)
    with pytest.raises(KafkaError) as refused:
        kafka.create_topic("orders")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    status, shown = control.ask("GET", "/rules")
    assert [(rule["name"], rule["matched"], rule["applied"]) for rule in shown["rules"]] == [
        ("a", 1, 1)
    ]
    assert kafka.create_topic("orders") == "orders"


def test_observations_show_requests_and_responses(control, kafka):
    control.ask("POST", "/rules", {"name": "seen", "api": "CreateTopics"})
    kafka.create_topic("one")
    kafka.create_topic("two")
    status, found = control.ask("GET", "/rules/seen/observations?limit=1")
    assert (status, found["left_off"]) == (200, 1)
    (last,) = found["observations"]
    assert last["request"]["topics"][0]["name"] == "two"
    assert last["response"]["topics"][0]["error_code"] == 0


def test_wait_ends_when_rule_has_applied(control, kafka):
    control.ask("POST", "/rules", {"name": "seen", "api": "CreateTopics"})
    status, why = control.refusal("GET", "/rules/seen/wait?seconds=0")
    assert status == 409
    assert "applied 1 times within 0 s" in why
    kafka.create_topic("waited")
    status, rule = control.ask("GET", "/rules/seen/wait?until=answered&seconds=30")
    assert (status, rule["applied"]) == (200, 1)


def test_expectation_of_no_request_is_judged(control, kafka):
    control.ask("POST", "/rules", {"name": "never", "api": "CreateTopics"})
    assert control.ask("GET", "/rules/never/never")[0] == 200
    kafka.create_topic("happened")
    status, why = control.refusal("GET", "/rules/never/never")
    assert (status, why) == (409, "never matched 1 requests: CreateTopics happened")


def test_removed_and_cleared_rules_are_gone(control):
    for name in "abc":
        control.ask("POST", "/rules", {"name": name, "api": "Fetch"})
    assert control.ask("POST", "/rules/a/release") == (200, {"released": 0})
    assert control.ask("DELETE", "/rules/a")[0] == 204
    assert control.refusal("GET", "/rules/a") == (404, "the rules are b, c")
    assert control.ask("DELETE", "/rules")[0] == 204
    assert control.ask("GET", "/rules") == (200, {"rules": [], "left_off": 0})


def test_plan_is_uploaded_and_downloaded(control):
    text = 'seed = 7\n\n[[rules]]\nname = "late"\napi = "Produce"\ndelay = 0.5\n'
    control.ask("POST", "/rules", {"name": "replaced", "api": "Fetch"})
    status, found = control.ask("PUT", "/plan", text)
    assert (status, [rule["name"] for rule in found["rules"]]) == (200, ["late"])
    assert control.ask("GET", "/plan") == (200, text)
    status, why = control.refusal("PUT", "/plan", text.replace("delay", "delya"))
    assert status == 400
    assert "delya" in why
    assert control.ask("GET", "/plan") == (200, text)


def test_trace_has_seed_and_actions(control, kafka):
    assert control.ask("PUT", "/seed", {"seed": 9})[0] == 204
    control.ask("POST", "/rules", {"name": "slow", "api": "CreateTopics", "delay": 0.001})
    control.ask("POST", "/rules", {"name": "idle", "api": "Produce", "delay": 1})
    kafka.create_topic("traced")
    _, trace = control.ask("GET", "/trace")
    assert (trace["seed"], trace["unmatched"], trace["left_off"]) == (9, ["idle"], 0)
    assert "slow" in trace["lines"][0]


def test_refused_rules_name_their_key(control):
    status, answer = control.ask("POST", "/rules", {"api": "Fetsch"})
    assert (status, answer["error"]["key"]) == (400, "api")
    assert "did you mean Fetch" in answer["error"]["fix"]
    assert control.refusal("POST", "/rules", {"script": "x"})[0] == 400
    assert control.refusal("POST", "/rules", "[1]")[0] == 400
    assert control.refusal("POST", "/rules", "{")[0] == 400
    assert control.refusal("POST", "/rules", {"api": "Fetch", "name": "a/b"})[0] == 400
    assert control.refusal("GET", "/rules/none/wait?seconds=1")[0] == 404
    control.ask("POST", "/rules", {"name": "a", "api": "Fetch"})
    assert control.refusal("POST", "/rules", {"name": "a", "api": "Fetch"})[0] == 400
    assert control.refusal("GET", "/rules/a/wait?seconds=61")[0] == 400
    assert control.refusal("GET", "/rules/a/wait?seconds=nan")[0] == 400
    assert control.refusal("GET", "/rules/a/wait?until=seen")[0] == 400
    assert control.refusal("GET", "/rules/a/observations?limit=0")[0] == 400
    assert control.refusal("GET", "/rules?limit=1")[0] == 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(RULE_KEYS - {"script"})), VALUES, max_size=4))
def test_any_json_is_rule_or_refused(given_keys):
    try:
        parsed = parse_rule(given_keys, "a")
    except PlanError as error:
        parsed = error
    assert isinstance(parsed, FaultRule | PlanError)


def test_rows_beyond_answer_are_counted():
    rows = ["x" * 8] * 5
    size = len(json.dumps(rows[0]))
    assert fitting(rows, 3 * size) == (rows[:3], 2)
    assert fitting(rows, 3 * size - 1) == (rows[:2], 3)
    assert fitting([]) == ([], 0)


def test_ready_plan_is_listed_and_added(control):
    status, listed = control.ask("GET", "/plans")
    assert (status, listed["left_off"]) == (200, 0)
    (row,) = [row for row in listed["plans"] if row["plan"] == "commit-answered-late"]
    assert row["keys"] == "api, group, delay, side, times"
    body = {"group": "billing", "delay": 5, "name": "late"}
    status, added = control.ask("POST", "/plans/commit-answered-late", body)
    assert status == 201
    (rule,) = added["rules"]
    assert (rule["name"], rule["given"]["group"], rule["given"]["delay"]) == ("late", "billing", 5)
    assert control.refusal("POST", "/plans/late")[0] == 404
    assert control.refusal("POST", "/plans/leader-moves", {"group": "g"})[0] == 400
    assert control.refusal("POST", "/plans/leader-moves", {"name": "a/b"})[0] == 400
