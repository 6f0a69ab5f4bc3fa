"""Refuses rules that can match nothing, and actions that a response has no place for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trimaran.faults.actions import (
    AdvertiseAddress,
    AnswerError,
    ChangeField,
    CorruptRecords,
    FaultAction,
    ShowLeaders,
    Side,
)
from trimaran.faults.conditions import check_path
from trimaran.faults.error_places import chosen_place
from trimaran.faults.places import places_of
from trimaran.faults.plan_error import PlanError
from trimaran.faults.response_edits import fitting_value
from trimaran.faults.rules import FaultRule, RuleMatch
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey

# Fields of whole requests that have the roles of items.
TOP_ROLES: Mapping[str, tuple[str, ...]] = {
    "group": ("group_id",),
    "transactional_id": ("transactional_id", "v3_and_below_transactional_id"),
    "member": ("member_id",),
}
# Roles that a rule names by another role: topic ids have the names of topics, and keys of coordinators are groups or
# transactional ids.
SAME_ROLES: Mapping[str, tuple[str, ...]] = {
    "topic": ("topic", "topic_id"),
    "group": ("group", "key"),
    "transactional_id": ("transactional_id", "key"),
}
_WITH_ADDRESSES = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})
_WITH_RECORDS: Mapping[Side, frozenset[ApiKey]] = {
    Side.REQUEST: frozenset({ApiKey.PRODUCE}),
    Side.RESPONSE: frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH}),
}


def check_rule(rule: FaultRule) -> None:
    """Raises PlanError: the rule can match nothing, or an action is impossible for what it matches."""
    match = rule.match
    pairs = [*pairs_of(match)]
    if not pairs:
        raise PlanError(
            f"{_apis(match)} has no version {_range(match)}",
            "; ".join(
                f"{api.spelling} has {REQUESTS[api].VERSIONS.low} to {REQUESTS[api].VERSIONS.high}"
                for api in sorted(match.apis)
            )
            or "write a version that an API has",
            key="version",
        )
    _check_roles(match, pairs)
    for condition in match.where:
        _check_field(match, Side.REQUEST, condition.path, "where")
    for step in rule.steps:
        for action in step:
            _check_action(action, match, pairs)


def pairs_of(match: RuleMatch) -> Iterator[tuple[ApiKey, int]]:
    """Yields the APIs and versions that a rule can match."""
    for api in sorted(match.apis or ApiKey):
        low, high = REQUESTS[api].VERSIONS
        for version in range(low, high + 1):
            if match.versions is None or version in match.versions:
                yield api, version


def roles_in(api: int, version: int) -> frozenset[str]:
    """Returns the roles, such as `topic`, by which a rule may match requests of this version, or their items."""
    found: set[str] = set()
    for place in places_of(api, version):
        found |= place.roles
    fields = {field.name for field in REQUESTS[api].__fields__ if version in field.versions}
    found |= {role for role, names in TOP_ROLES.items() if fields & set(names)}
    if api == ApiKey.FIND_COORDINATOR:
        found.add("key")
    return frozenset(
        role for role in {*found, *SAME_ROLES} if found & set(SAME_ROLES.get(role, (role,)))
    )


def _check_roles(match: RuleMatch, pairs: list[tuple[ApiKey, int]]) -> None:
    missing = match.item_roles
    for api, version in pairs:
        missing = min(missing, match.item_roles - roles_in(api, version), key=len)
        if not missing:
            return
    role = min(missing)
    raise PlanError(
        f"{_apis(match)} names no {role.replace('_', ' ')}, so the rule can match nothing",
        f"remove {role}, or name another API",
        key=role,
    )


def _check_field(match: RuleMatch, side: Side, path: str, key: str, value: Any = None) -> None:
    if not match.apis:
        raise PlanError("a field is named, but no API", "add api", key=key)
    table = REQUESTS if side is Side.REQUEST else RESPONSES
    errors = []
    for api in sorted(match.apis):
        try:
            shape = check_path(table[api], path, key)
            if key == "change":
                fitting_value(shape, value)
        except PlanError as error:
            errors.append(error)
        else:
            return
    raise errors[0]


def _check_action(action: FaultAction, match: RuleMatch, pairs: list[tuple[ApiKey, int]]) -> None:
    match action:
        case AnswerError():
            if not any(chosen_place(action, match.item_roles, *pair) for pair in pairs):
                raise PlanError(
                    f"the response of {_apis(match)} has no place for this error",
                    "remove place, or match other versions",
                    key="error",
                )
        case ChangeField():
            _check_field(match, action.side, action.path, "change", action.value)
        case ShowLeaders():
            _check_apis(match, frozenset({ApiKey.METADATA}), "leaders")
        case AdvertiseAddress():
            _check_apis(match, _WITH_ADDRESSES, "advertise")
        case CorruptRecords():
            _check_apis(match, _WITH_RECORDS[action.side], "corrupt")
        case _:
            pass  # other actions are possible for each request and response


def _check_apis(match: RuleMatch, possible: frozenset[ApiKey], key: str) -> None:
    if not match.apis <= possible or not match.apis:
        names = ", ".join(api.spelling for api in sorted(possible))
        raise PlanError(f"{key} is for {names}", f"name {names} as api", key=key)


def _apis(match: RuleMatch) -> str:
    return " and ".join(api.spelling for api in sorted(match.apis)) or "no API"


def _range(match: RuleMatch) -> str:
    versions = match.versions
    assert versions is not None, "every API has a version"
    if versions.high > 1000:
        return f"{versions.low}+"
    return str(versions.low) if versions.low == versions.high else f"{versions.low}-{versions.high}"
