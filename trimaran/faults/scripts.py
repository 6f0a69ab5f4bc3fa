"""Scripts: Python functions that decide about a decoded request.

A script is given an `Observation` and returns None (the request passes), an `ErrorCode`, a table of actions such as
`{"delay": 0.5}`, a response, or a request that replaces the given one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimaran.faults.action_parser import parse_actions
from trimaran.faults.actions import AnswerError, FaultAction
from trimaran.faults.fates import RequestFate
from trimaran.faults.observations import Observation
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import REQUESTS, RESPONSES


def run_script(
    function: Callable[[Observation], Any], seen: Observation, fate: RequestFate
) -> list[FaultAction]:
    """Calls a script; returns the actions that it wants. Raises what the script raises, and TypeError, PlanError: it
    returns something else.
    """
    wanted = function(seen)
    if wanted is None:
        return []
    if isinstance(wanted, ErrorCode):
        return [AnswerError(wanted)]
    if isinstance(wanted, Mapping):
        actions = parse_actions(wanted)
        return list(actions)
    if isinstance(wanted, RESPONSES[seen.api]):
        fate.answer = wanted
    elif isinstance(wanted, REQUESTS[seen.api]):
        fate.request, fate.is_changed = wanted, True
    else:
        raise TypeError(f"a script returned {type(wanted).__name__} for {seen.api.spelling}")
    return []
