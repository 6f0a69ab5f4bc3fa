"""Fetch sessions (KIP-227), which are declined while a rule chooses partitions of Fetch.

A request in a session names only the partitions that changed, so a rule would not see the others. The broker is given
the request as one without a session, as if its cache of sessions were full; every client then names all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimaran.faults.actions import AnswerError
from trimaran.faults.error_places import chosen_place
from trimaran.faults.places import top_error
from trimaran.faults.rule_state import RuleState
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message

_SESSIONS_SINCE = 7
_PARTITION_ROLES = frozenset({"topic", "partition"})


def needs_whole_fetches(states: Iterable[RuleState], version: int) -> bool:
    """Whether a rule chooses partitions, or gives them errors."""
    return version >= _SESSIONS_SINCE and any(_chooses(state, version) for state in states)


def _chooses(state: RuleState, version: int) -> bool:
    roles = state.rule.match.item_roles
    if roles & _PARTITION_ROLES:
        return True
    for action in (action for step in state.rule.steps for action in step):
        if isinstance(action, AnswerError):
            target = chosen_place(action, roles, ApiKey.FETCH, version)
            if target is not None and not target.is_top:
                return True
    return False


def is_in_session(request: Any) -> bool:
    """Whether a Fetch request names only what changed since the last one."""
    return bool(request.session_epoch > 0)


def decline_session() -> Message:
    """Returns the answer to a request in a session: the client begins again with all partitions."""
    return top_error(ApiKey.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
