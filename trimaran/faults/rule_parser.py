"""Rules from keyword arguments, as tests and plan files give them; an invalid rule is refused when it is parsed.

parse_rule({"api": "Fetch", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 3}, name="a")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trimaran.faults.action_parser import (
    ACTION_KEYS,
    SECONDS_MAX,
    number,
    parse_actions,
    whole,
)
from trimaran.faults.actions import FaultAction
from trimaran.faults.conditions import FieldCondition, parse_condition
from trimaran.faults.plan_error import PlanError, unknown
from trimaran.faults.rule_checks import check_rule
from trimaran.faults.rules import (
    RULE_NAME_CHARS_MAX,
    SEQUENCE_STEPS_MAX,
    FaultRule,
    RuleMatch,
    RuleSchedule,
)
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.messages.registry import ApiKey

_INT_MAX = (1 << 31) - 1
_TEXTS = (
    "listener",
    "client_id",
    "software",
    "principal",
    "topic",
    "group",
    "transactional_id",
    "member",
)
_MATCH_KEYS = frozenset({"api", "version", "broker", "connection", "partition", "where", *_TEXTS})
_SCHEDULE_KEYS = frozenset(
    {"times", "after", "every", "probability", "until", "once_per_connection"}
)
_SEQUENCE_KEYS = frozenset({"sequence", "once_through"})
RULE_KEYS = _MATCH_KEYS | _SCHEDULE_KEYS | _SEQUENCE_KEYS | ACTION_KEYS | {"name"}


def parse_rule(given: Mapping[str, Any], name: str) -> FaultRule:
    """Returns the rule; `name` is used if the rule gives itself none.

    Raises:
        PlanError: a key, an API, a code or a field is unknown, a value is invalid, or the rule can match nothing.
    """
    for key in given:
        if key not in RULE_KEYS:
            raise unknown("key of a rule", key, sorted(RULE_KEYS), key)
    steps, once_through = _steps(given)
    rule = FaultRule(
        _name(given.get("name", name)),
        _match(given),
        _schedule(given),
        steps,
        once_through,
        dict(given),
    )
    check_rule(rule)
    return rule


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= RULE_NAME_CHARS_MAX:
        raise PlanError(
            f"name is {value!r}",
            f"write a text of at most {RULE_NAME_CHARS_MAX} characters",
            key="name",
        )
    return value


def _steps(given: Mapping[str, Any]) -> tuple[tuple[tuple[FaultAction, ...], ...], bool]:
    actions = {key: value for key, value in given.items() if key in ACTION_KEYS}
    if "sequence" not in given:
        if "once_through" in given:
            raise PlanError(
                "once_through is without a sequence", "add sequence", key="once_through"
            )
        return (parse_actions(actions),), False
    if actions:
        key = next(iter(actions))
        raise PlanError(f"{key} stands beside a sequence", "move it into a step", key=key)
    sequence = given["sequence"]
    if not isinstance(sequence, list | tuple) or not 0 < len(sequence) <= SEQUENCE_STEPS_MAX:
        raise PlanError(
            "sequence is no list of steps",
            f'write 1 to {SEQUENCE_STEPS_MAX} tables, such as {{"error": "NOT_COORDINATOR"}}',
            key="sequence",
        )
    for step in sequence:
        if not isinstance(step, Mapping):
            raise PlanError(f"a step is {step!r}", "write a table of actions", key="sequence")
    once_through = _flag(given, "once_through")
    return tuple(parse_actions(step) for step in sequence), once_through


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise PlanError(f"{key} is {value!r}", "write true or false", key=key)
    return value


def _schedule(given: Mapping[str, Any]) -> RuleSchedule:
    def optional(key: str, parse: Callable[..., Any], low: float, high: float, default: Any) -> Any:
        return default if given.get(key) is None else parse(given[key], key, low, high)

    return RuleSchedule(
        times=optional("times", whole, 1, _INT_MAX, None),
        after=optional("after", whole, 0, _INT_MAX, 0),
        every=optional("every", whole, 1, _INT_MAX, 1),
        probability=_probability(given.get("probability", 1.0)),
        until=optional("until", number, 1e-3, SECONDS_MAX, None),
        once_per_connection=_flag(given, "once_per_connection"),
    )


def _probability(value: Any) -> float:
    if number(value, "probability", 0, 1) == 0:
        raise PlanError(
            "a rule with probability 0 matches nothing", "write a number above 0", key="probability"
        )
    return float(value)


def _match(given: Mapping[str, Any]) -> RuleMatch:
    values: dict[str, Any] = {key: _text(given, key) for key in _TEXTS}
    for key, low in (("broker", 0), ("connection", 1)):
        values[key] = None if given.get(key) is None else whole(given[key], key, low, _INT_MAX)
    return RuleMatch(
        apis=_apis(given.get("api")),
        versions=_versions(given.get("version")),
        partitions=_partitions(given.get("partition")),
        where=_conditions(given.get("where")),
        **values,
    )


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise PlanError(f"{key} is {value!r}", "write a text; * matches any part", key=key)
    return value


def _apis(value: Any) -> frozenset[ApiKey]:
    if value is None:
        return frozenset()
    each = value if isinstance(value, list | tuple | set | frozenset) else [value]
    if not each:
        raise PlanError("api is an empty list, which matches nothing", "name an API", key="api")
    return frozenset(api_named(one) for one in each)


def api_named(value: Any) -> ApiKey:
    """Returns an API by Kafka's name in any case, or by its key. Raises PlanError: there is no such API."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value in {int(key) for key in ApiKey}:
            return ApiKey(value)
    else:
        by_name = {key.spelling.lower(): key for key in ApiKey}
        found = by_name.get(str(value).lower())
        if found is not None:
            return found
    raise unknown("API", value, [key.spelling for key in ApiKey], "api")


def _versions(value: Any) -> Versions | None:
    if value is None:
        return None
    text = str(value)
    try:
        found = Versions.parse(text)
    except ValueError:
        found = Versions(1, 0)
    if found.low > found.high or found.low < 0:
        raise PlanError(f"version is {value!r}", 'write "7", "7-12" or "7+"', key="version")
    return found


def _partitions(value: Any) -> frozenset[int] | None:
    if value is None:
        return None
    each: Iterable[Any] = [value] if isinstance(value, int) else value
    if not isinstance(each, list | tuple | range | set | frozenset) or not each:
        raise PlanError(
            f"partition is {value!r}", "write a number or a list of them", key="partition"
        )
    return frozenset(whole(one, "partition", 0, _INT_MAX) for one in each)


def _conditions(value: Any) -> tuple[FieldCondition, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return tuple(FieldCondition(str(path), "==", wanted) for path, wanted in value.items())
    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list | tuple):
        raise PlanError(
            f"where is {value!r}", 'write "acks == 1", or a list of conditions', key="where"
        )
    return tuple(parse_condition(str(text)) for text in each)
