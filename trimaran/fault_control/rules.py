"""Rules over HTTP: added, listed, released, removed; what they have seen, and expectations about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.fault_control.controlled import ControlledKafka
from trimaran.fault_control.requests import (
    TOML,
    ControlAnswer,
    ControlRequest,
    NotFound,
    NotReached,
    fitting,
    refused,
)
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.observations import OBSERVATIONS_MAX
from trimaran.faults.plan_error import PlanError
from trimaran.faults.plan_file import parse_plan, plan_text
from trimaran.faults.ready_plans import plan_names, story_rows
from trimaran.faults.rule_parser import RULE_KEYS
from trimaran.faults.rules import FaultRule
from trimaran.testing.faults import AddedRule, KafkaFaults

# The longest wait of one request; to wait longer, a test repeats the request.
WAIT_SECONDS_MAX = 60.0
WAIT_SECONDS = 10.0
OBSERVATIONS = 100
SEED_MAX = (1 << 63) - 1
# Without scripts, which are Python functions and cannot be sent over HTTP.
HTTP_RULE_KEYS = RULE_KEYS - {"script"}


def add_rule(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    given = request.fields(HTTP_RULE_KEYS)
    _ensure_addressable(str(given.get("name", "")))
    rule = cluster.faults.add(**given)
    return ControlAnswer(201, _shown(cluster.faults, rule))


def list_rules(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    rows, left_off = fitting(_shown(cluster.faults, rule) for rule in cluster.faults.rules())
    return ControlAnswer(content={"rules": rows, "left_off": left_off})


def clear_rules(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    cluster.faults.clear()
    return ControlAnswer(204)


def show_rule(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    return ControlAnswer(content=_shown(cluster.faults, _rule(cluster, request)))


def remove_rule(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    cluster.faults.remove(_rule(cluster, request).name)
    return ControlAnswer(204)


def release_rule(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    released = cluster.faults.release(_rule(cluster, request).name)
    return ControlAnswer(content={"released": released})


def list_observations(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    limit = int(request.number("limit", OBSERVATIONS, 1, OBSERVATIONS_MAX))
    seen = cluster.faults.seen(_rule(cluster, request).name)
    rows, left_off = fitting(each.as_json() for each in reversed(seen[-limit:]))
    content = {"observations": rows[::-1], "left_off": left_off + max(0, len(seen) - limit)}
    return ControlAnswer(content=content)


def wait_for_rule(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    rule = AddedRule(cluster.faults, _rule(cluster, request))
    count = int(request.number("count", 1, 1, SEED_MAX))
    seconds = request.number("seconds", WAIT_SECONDS, 0, WAIT_SECONDS_MAX)
    kinds: dict[str, Callable[[int, float], Any]] = {
        "applied": rule.wait,
        "answered": rule.wait_answered,
        "held": rule.wait_held,
    }
    wanted = request.query.get("until", "applied")
    if wanted not in kinds:
        raise refused(f"until is {wanted[:100]!r}", f"write one of {', '.join(kinds)}")
    try:
        kinds[wanted](count, seconds)
    except AssertionError as error:
        raise NotReached(
            "the rule has not seen enough", str(error), "look at its match, or wait for longer"
        ) from None
    return show_rule(cluster, request)


def expect_never(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    try:
        AddedRule(cluster.faults, _rule(cluster, request)).assert_never()
    except AssertionError as error:
        fix = "see its observations for the requests"
        raise NotReached("a request has matched", str(error), fix) from None
    return show_rule(cluster, request)


def show_trace(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    faults = cluster.faults
    with faults.changed:
        lines, count = list(faults.trace.lines), faults.trace.count
    rows, _older = fitting(reversed(lines))
    content = {
        "seed": faults.seed,
        "lines": rows[::-1],
        "left_off": count - len(rows),
        "unmatched": faults.unmatched(),
    }
    return ControlAnswer(content=content)


def set_seed(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    cluster.faults.seed = checked_seed(request.fields({"seed"}).get("seed"))
    return ControlAnswer(204)


def checked_seed(seed: Any) -> int:
    """Returns the seed. Raises UserError."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= SEED_MAX:
        raise refused(f"seed is {str(seed)[:100]}", f"write a whole number from 0 to {SEED_MAX}")
    return seed


def show_plan(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    return ControlAnswer(content=plan_text(cluster.faults.plan()), kind=TOML)


def replace_plan(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    try:
        text = request.body.decode()
    except UnicodeDecodeError as error:
        raise refused(f"the plan is no UTF-8: {error}", "send TOML in UTF-8") from None
    plan = parse_plan(text, "body")
    for rule in plan.rules:
        _ensure_addressable(rule.name)
    with cluster.faults.changed:
        cluster.faults.clear()
        cluster.faults.add_plan(plan)
    return list_rules(cluster, request)


def list_plans(_: ControlledKafka, _request: ControlRequest) -> ControlAnswer:
    rows, left_off = fitting(story_rows())
    return ControlAnswer(content={"plans": rows, "left_off": left_off})


def add_plan(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    name = request.path["plan"]
    if name not in plan_names():
        raise NotFound(
            f"there is no plan {name[:200]!r}", "it is unknown", "GET /v1/plans lists the plans"
        )
    given = request.fields(HTTP_RULE_KEYS)
    _ensure_addressable(str(given.get("name", "")))
    added = KafkaFaults(cluster.faults).add_plan(name, **given)
    names = {rule.name for rule in added}
    rules = [rule for rule in cluster.faults.rules() if rule.name in names]
    rows, left_off = fitting(_shown(cluster.faults, rule) for rule in rules)
    return ControlAnswer(201, {"rules": rows, "left_off": left_off})


def _rule(cluster: ControlledKafka, request: ControlRequest) -> FaultRule:
    name = request.path["name"]
    found = next((rule for rule in cluster.faults.rules() if rule.name == name), None)
    if found is None:
        names = ", ".join(rule.name for rule in cluster.faults.rules()[:20])
        raise NotFound(
            f"there is no rule {name[:200]!r}",
            f"the rules are {names}" if names else "there are no rules",
            "add it, or correct its name",
        )
    return found


def _ensure_addressable(name: str) -> None:
    if "/" in name or name in (".", ".."):
        raise PlanError(
            f"name is {name!r}", "leave out /: the name is a part of the rule's path", key="name"
        )


def _shown(faults: FaultSet, rule: FaultRule) -> dict[str, Any]:
    try:
        counters, held = faults.counters(rule.name), faults.holding(rule.name)
    except PlanError:  # the rule was removed meanwhile
        return {"name": rule.name, "given": dict(rule.given), "matched": 0, "applied": 0, "held": 0}
    given = {key: value for key, value in rule.given.items() if key in HTTP_RULE_KEYS}
    return {
        "name": rule.name,
        "given": given,
        "matched": counters.matched,
        "applied": counters.applied,
        "held": held,
    }
