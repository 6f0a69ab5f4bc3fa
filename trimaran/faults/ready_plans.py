"""The ready plans: faults that have happened to clients of Kafka, by name. Each one is a file in `plans/`.

plan = ready_plan("commit-answered-late", group="billing", delay=5)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError
from trimaran.faults.plan_error import unknown
from trimaran.faults.plan_file import PLAN_BYTES_MAX, parse_plan
from trimaran.faults.rule_parser import parse_rule
from trimaran.faults.rules import FaultPlan, FaultRule

_SUFFIX = ".toml"
_FOLDER = resources.files("trimaran.faults") / "plans"


@cache
def plan_names() -> tuple[str, ...]:
    """Returns the names of the ready plans, sorted."""
    files = (file.name for file in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def ready_plan(plan: str, /, **values: Any) -> FaultPlan:
    """Returns a ready plan. `values` replace keys of the rules wherever a rule has the key: `topic` and `group`, which
    are `*` in the files, `times`, `delay`. `name` replaces the prefix of the rules' names, which is the plan's name, so
    that a plan can be added twice.

    Raises:
        PlanError: there is no such plan, no rule of it has such a key, or a value is refused.
    """
    names = plan_names()
    if plan not in names:
        raise unknown("ready plan", plan, names, "plan")
    found = parse_plan((_FOLDER / f"{plan}{_SUFFIX}").read_text(encoding="utf-8"), plan)
    known = ["name", *plan_keys(found)]
    for key in values:
        if key not in known:
            raise unknown(f"key of the plan {plan}", key, known, key)
    return FaultPlan(
        tuple(_with(rule, plan, values) for rule in found.rules), found.seed, found.story
    )


def plan_keys(plan: FaultPlan) -> list[str]:
    """Returns the keys of the rules of a plan, without `name`: those whose values `ready_plan` replaces."""
    return list(dict.fromkeys(key for rule in plan.rules for key in rule.given if key != "name"))


def _with(rule: FaultRule, plan: str, values: Mapping[str, Any]) -> FaultRule:
    own = {key: value for key, value in values.items() if key in rule.given}
    name = f"{values.get('name', plan)}{rule.name.removeprefix(plan)}"
    return parse_rule({**rule.given, **own, "name": name}, name)


def find_plan(source: str | Path) -> FaultPlan:
    """Returns a ready plan by its name, or the plan of a file.

    Raises:
        UserError: the file cannot be read, or is refused (`PlanError`).
    """
    names = plan_names()
    if str(source) in names:
        return ready_plan(str(source))
    try:
        with Path(source).open(encoding="utf-8") as file:
            return parse_plan(file.read(PLAN_BYTES_MAX + 1), str(source))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read the plan {source}",
            getattr(error, "strerror", None) or str(error),
            did_you_mean(str(source), names) or "name a readable TOML file, or a ready plan",
            exit_code=Exit.USAGE,
        ) from error


def story_rows() -> list[dict[str, str]]:
    """Returns a row for each ready plan: its name, what it is about, and the keys whose values may be replaced."""
    rows = []
    for name in plan_names():
        plan = ready_plan(name)
        story = plan.story
        rows.append(
            {
                "plan": name,
                "title": story.title,
                "replays": ", ".join(story.replays),
                "shows": story.shows,
                "keys": ", ".join(plan_keys(plan)),
            }
        )
    return rows
