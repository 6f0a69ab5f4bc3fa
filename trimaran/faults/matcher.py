"""Which items of a request a rule matches."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from trimaran.faults.observations import FaultPeer
from trimaran.faults.places import ANY, Roles, items_of, places_of
from trimaran.faults.rule_checks import TOP_ROLES
from trimaran.faults.rules import RuleMatch
from trimaran.faults.topic_names import TopicNames
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message

# The kinds of keys of FindCoordinator.
_KEY_ROLES = {0: "group", 1: "transactional_id"}
# Sessions of these requests hold partitions that the requests do not name.
_WITH_SESSIONS = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})


def matches_peer(match: RuleMatch, api: int, version: int, peer: FaultPeer) -> bool:
    """Whether a rule can match a request, as far as this is known without its body."""
    return (
        (not match.apis or api in match.apis)
        and (match.versions is None or version in match.versions)
        and (match.broker is None or match.broker == peer.broker)
        and (match.connection is None or match.connection == peer.connection)
        and _fits(match.listener, peer.listener)
        and _fits(match.client_id, peer.client_id)
        and (
            _fits(match.software, peer.software)
            or _fits(match.software, peer.software.partition(" ")[0])
        )
        and _fits(match.principal, peer.principal)
    )


def _fits(pattern: str | None, value: Any) -> bool:
    return pattern is None or value is ANY or (value is not None and fnmatchcase(value, pattern))


class RequestItem(NamedTuple):
    """An item of a request: the roles that the request gives it, and all roles that rules name."""

    named: Roles
    roles: Roles


def request_items(request: Message, version: int, names: TopicNames) -> list[RequestItem]:
    """Returns the items of a request; one without a name if the request names none."""
    top = top_roles(request)
    if any(place.needs_response and place.request for place in places_of(request.KEY, version)):
        top["partition"] = ANY  # only the response names the partitions
    items = items_of(request, version)
    if request.KEY in _WITH_SESSIONS or (not items and _means_all(request, version)):
        items.append({"topic": ANY, "topic_id": ANY, "partition": ANY})
    return [RequestItem(item, complete_item(top | item, request, names)) for item in items or [{}]]


def _means_all(request: Message, version: int) -> bool:
    """Whether the empty list of topics in this request means all topics."""
    is_oldest = request.KEY == ApiKey.METADATA and version == 0
    return is_oldest or request.KEY == ApiKey.DESCRIBE_TOPIC_PARTITIONS


def top_roles(request: Message) -> Roles:
    """Returns the roles that all items of a request have."""
    found: Roles = {}
    for role, fields in TOP_ROLES.items():
        for name in fields:
            value = getattr(request, name, None)
            if value:
                found[role] = value
    if request.KEY == ApiKey.FIND_COORDINATOR:
        found["key"] = getattr(request, "key", "")
    return found


def complete_item(item: Roles, request: Message, names: TopicNames) -> Roles:
    """Adds the name of a topic that is given by its id, and the group or transactional id that is the key of a
    coordinator.
    """
    topic_id = item.get("topic_id")
    if not item.get("topic") and topic_id is not None:
        item["topic"] = ANY if topic_id is ANY else names.name_of(topic_id)
    if "key" in item:
        role = _KEY_ROLES.get(getattr(request, "key_type", 0))
        if role is not None:
            item[role] = item["key"]
    return item


def matching_items(match: RuleMatch, items: Sequence[RequestItem]) -> list[RequestItem]:
    """Returns the items that a rule concerns."""
    return [item for item in items if item_matches(match, item.roles)]


def item_matches(match: RuleMatch, item: Roles) -> bool:
    """Whether a rule concerns an item with these roles."""
    partition = item.get("partition")
    return (
        _fits(match.topic, item.get("topic"))
        and (match.partitions is None or partition is ANY or partition in match.partitions)
        and _fits(match.group, item.get("group"))
        and _fits(match.transactional_id, item.get("transactional_id"))
        and _fits(match.member, item.get("member"))
    )
