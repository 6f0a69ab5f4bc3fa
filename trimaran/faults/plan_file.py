"""Plan files: a seed and rules in TOML. Each error names line and column.

title = "The leader moves"
replays = ["KIP-951"]
shows = "asks for the new leader, and continues"
seed = 7
[[rules]]
api = "Fetch"
topic = "orders"
error = "NOT_LEADER_OR_FOLLOWER"
times = 3
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from trimaran.faults.plan_error import PlanError, unknown
from trimaran.faults.rule_parser import parse_rule
from trimaran.faults.rules import RULES_MAX, FaultPlan, FaultRule, PlanStory

# The maximum size of a plan file.
PLAN_BYTES_MAX = 4 << 20
_SEED_MAX = (1 << 63) - 1
_KEYS = ("title", "replays", "shows", "seed", "rules")
_SYNTAX = re.compile(
    r"(?P<why>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


def parse_plan(text: str, source: str = "plan") -> FaultPlan:
    """Reads a plan. Raises PlanError: it is refused, with line and column."""
    if len(text.encode()) > PLAN_BYTES_MAX:
        raise PlanError(
            "the plan is too large", f"write at most {PLAN_BYTES_MAX} bytes", where=source
        )
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text, source) from None
    except RecursionError:
        raise PlanError("values are nested too deep", "write flat tables", where=source) from None
    positions = _KeyPositions(text, source)
    for key in tables:
        if key not in _KEYS:
            raise unknown("key of a plan", key, _KEYS, key).at(positions.of(None, key))
    seed = tables.get("seed", 0)
    if not isinstance(seed, int) or not 0 <= seed <= _SEED_MAX:
        refused = PlanError(
            f"seed is {seed!r}", f"write a whole number from 0 to {_SEED_MAX}", key="seed"
        )
        raise refused.at(positions.of(None, "seed"))
    try:
        story = _story(tables)
    except PlanError as error:
        raise error.at(positions.of(None, error.key)) from None
    return FaultPlan(tuple(_rules(tables.get("rules", []), positions)), seed, story)


def _story(tables: Mapping[str, Any]) -> PlanStory:
    texts = {key: tables.get(key, "") for key in ("title", "shows")}
    replays = tables.get("replays", [])
    for key, text in texts.items():
        if not isinstance(text, str):
            raise PlanError(f"{key} is {text!r}", "write a text", key=key)
    if not isinstance(replays, list) or not all(isinstance(each, str) for each in replays):
        raise PlanError(
            f"replays is {replays!r}", 'write a list of texts, as ["KIP-98"]', key="replays"
        )
    return PlanStory(texts["title"], tuple(replays), texts["shows"])


def _syntax_error(error: tomllib.TOMLDecodeError, text: str, source: str) -> PlanError:
    found = _SYNTAX.fullmatch(str(error))
    why = found["why"] if found else str(error)
    if found and found["line"]:
        place = f"{found['line']}:{found['column']}"
    else:
        end = text.rpartition("\n")[2]
        place = f"{text.count(chr(10)) + 1}:{len(end) + 1}"
    return PlanError(why, "correct the TOML", where=f"{source}:{place}")


def _rules(tables: Any, positions: _KeyPositions) -> Iterable[FaultRule]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError("rules is no list of tables", "begin each rule with [[rules]]").at(
            positions.of(None, "rules")
        )
    if len(tables) > RULES_MAX:
        raise PlanError(
            f"there are {len(tables)} rules",
            f"write at most {RULES_MAX}",
            where=positions.of(None, "rules"),
        )
    names: set[str] = set()
    defaults = (f"rule-{index + 1}" for index in range(len(tables)))
    given = {str(table.get("name", name)) for table, name in zip(tables, defaults, strict=True)}
    for index, table in enumerate(tables):
        try:
            rule = parse_rule(table, name=f"rule-{index + 1}")
        except PlanError as error:
            raise error.at(positions.of(index, error.key)) from None
        if rule.name in names:
            raise PlanError(f"two rules have the name {rule.name}", "rename one of them").at(
                positions.of(index, "name")
            )
        names.add(rule.name)
        if rule.released_by and rule.released_by not in given:
            raise unknown("rule", rule.released_by, given, "released_by").at(
                positions.of(index, "released_by")
            )
        yield rule


class _KeyPositions:
    """Line and column of the keys of a TOML text, found again by their spelling: `tomllib` keeps no positions."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._lines = text.splitlines()
        self._starts = [
            n for n, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*rules\s*\]\]", line)
        ]

    def of(self, rule: int | None, key: str) -> str:
        """Returns the place of a key of a rule, or at the top; the beginning of the rule if the key is not found."""
        starts = self._starts
        if rule is None:
            first, last = 0, len(self._lines)
        elif rule < len(starts):
            first = starts[rule]
            last = starts[rule + 1] if rule + 1 < len(starts) else len(self._lines)
        else:  # the rules are an array of inline tables
            return f"{self._source}:1:1"
        wanted = re.compile(rf"(?:^|[\s{{,])(\"?{re.escape(key)}\"?)\s*=")
        for n in range(first, last):
            found = wanted.search(self._lines[n]) if key else None
            if found:
                return f"{self._source}:{n + 1}:{found.start(1) + 1}"
        column = self._lines[first].find("[") + 1 if self._lines else 1
        return f"{self._source}:{first + 1}:{max(column, 1)}"


def plan_text(plan: FaultPlan) -> str:
    """Returns a plan as TOML, which `parse_plan` reads again; scripts are named in comments."""
    told = {"title": plan.story.title, "replays": plan.story.replays, "shows": plan.story.shows}
    lines = [f"{key} = {_toml(value)}" for key, value in told.items() if value]
    lines.append(f"seed = {plan.seed}")
    for rule in plan.rules:
        lines += ["", "[[rules]]", f"name = {json.dumps(rule.name)}"]
        for key, value in rule.given.items():
            if key == "script":
                lines.append(f"# script = {getattr(value, '__name__', value)}")
            elif key != "name" and value is not None:
                lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
        )
    if isinstance(value, list | tuple | range | set | frozenset):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value)
