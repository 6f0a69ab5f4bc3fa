"""Handlers in their former shapes as generators: `async def`, `DeferredResponse`, `Slices`.

This module goes with the last of them (see `trimaran.wire.transport.scheduling.effects` for the one form).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import CoroutineType, GeneratorType
from typing import Any

from trimaran.wire.errors import ErrorCode
from trimaran.wire.schema import Message
from trimaran.wire.transport.dispatch.responding import Response
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.requests.calls import Call, CloseConnection, DeferredResponse
from trimaran.wire.transport.requests.elements import FROZEN_ELEMENTS_MIN
from trimaran.wire.transport.requests.slices import ITEMS_PER_SLICE
from trimaran.wire.transport.scheduling.effects import (
    INLINE_COST_MAX,
    Blocking,
    Compute,
    Effect,
    Handling,
    Wait,
)

TYPES = (DeferredResponse, CoroutineType)
# Slices whose answers are taken out of the collector's sight together, as their request is.
SLICES_FROZEN = FROZEN_ELEMENTS_MIN // ITEMS_PER_SLICE


def steps_of(route: Route, call: Call, found: Any) -> Handling[Response]:
    """Returns the one form of the results of handlers of `TYPES`."""
    if isinstance(found, DeferredResponse):
        return _of_deferred(route, call, found)
    return _of_coroutine(found)


def _of_coroutine(coroutine: CoroutineType[Any, Any, Response]) -> Handling[Response]:
    """An async handler runs when all earlier responses have been sent."""
    try:
        response: Response = yield Wait(lambda: coroutine)
        return response
    finally:
        coroutine.close()


def _of_deferred(route: Route, call: Call, deferred: DeferredResponse[Any]) -> Handling[Response]:
    """The form of a deferred response."""
    finish, ready, on_error = deferred.finish, deferred.ready, deferred.on_error
    try:
        response: Response = yield Wait(finish, ready, deferred.holds_request)
    except CloseConnection:
        raise
    except Exception as error:
        if on_error is None:
            raise
        refusal = route.as_kafka_error(error)
        cost = INLINE_COST_MAX + 1 if call.heavy else 0
        response = yield Compute(
            cost, lambda: route.error_response(refusal, call.header.api_version, on_error)
        )
    return response


def is_sliced(route: Route, request: Any, call: Call) -> bool:
    """Returns whether the request is handled in slices."""
    return call.heavy and route.slices is not None and route.slices.are_several(request)


def in_slices(route: Route, request: Any, context: Any, call: Call) -> Handling[Response]:
    """Handles one slice after the other; only the bytes of the answers are kept. An error of the whole, of any slice,
    is the answer to all.
    """
    slices = route.slices
    assert slices is not None
    room = call.room()

    def handle(part: Message) -> Handling[Message]:
        response = route.handler(part, context, call)
        if type(response) in TYPES:
            response = steps_of(route, call, response)
        if isinstance(response, GeneratorType):
            response = yield from _without_waits(response)
        slices.encode(response, room)
        yield None
        found: Message = response
        return found

    parts = slices.of(request)
    whole = yield from handle(next(parts)[0])
    for number, (part, goes_on) in enumerate(parts, 1):
        if getattr(whole, "error_code", ErrorCode.NONE):
            break
        answer = yield from handle(part)
        if getattr(answer, "error_code", ErrorCode.NONE):
            return answer
        slices.join(whole, answer, goes_on)
        if number % SLICES_FROZEN == 0:
            gc.freeze()
    return whole


def _without_waits(steps: Handling[Response]) -> Handling[Response]:
    """The same handler; the next slice, and so the next request, does not begin before it ends."""
    step: Callable[[Any], Effect] = steps.send
    given: Any = None
    while True:
        try:
            effect = step(given)
        except StopIteration as end:
            response: Response = end.value
            return response
        try:
            given = yield Blocking(effect.wait) if isinstance(effect, Wait) else effect
            step = steps.send
        except Exception as error:  # noqa: BLE001 - it is for the handler
            step, given = steps.throw, error
