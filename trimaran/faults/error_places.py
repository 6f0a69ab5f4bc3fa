"""Which error codes of a response a rule means: those of items, or the one at the top."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.faults.actions import AnswerError, ErrorPlace
from trimaran.faults.places import ItemPlace, has_top_error, places_of
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import ApiKey

# In these APIs most errors are those of partitions, although the response also has a code at the top.
_ITEMS_FIRST = frozenset(
    {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.METADATA}
)
# Errors of a session or a member, which in these APIs are errors of the whole response.
_WHOLE = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBOOTSTRAP_REQUIRED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
# The role that a rule names, and further roles of items that it matches.
_ALIASES = {"topic": ("topic_id",), "group": ("key",), "transactional_id": ("key",)}


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """The top of a response, or the items of a place."""

    place: ItemPlace | None

    @property
    def is_top(self) -> bool:
        return self.place is None


def chosen_place(
    action: AnswerError, roles: frozenset[str], api: int, version: int
) -> ErrorTarget | None:
    """Returns the place of an error in responses of this version, for a rule that names `roles` of items; None if
    there is none.
    """
    top = ErrorTarget(None) if has_top_error(api, version) else None
    places = places_of(api, version)
    if action.place is ErrorPlace.RESPONSE:
        return top
    named = {role for role in roles if any(_has(place, role) for place in places)}
    fitting = [place for place in places if all(_has(place, role) for role in named)]
    items = ErrorTarget(fitting[0]) if fitting else None
    if action.place is ErrorPlace.ITEMS or named:
        return items
    if items is not None and api in _ITEMS_FIRST and action.code not in _WHOLE:
        return items
    return top or items


def _has(place: ItemPlace, role: str) -> bool:
    return role in place.roles or any(alias in place.roles for alias in _ALIASES.get(role, ()))
