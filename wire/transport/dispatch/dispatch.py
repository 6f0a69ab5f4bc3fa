"""Calls the handler of a request, given its bytes, and returns the bytes of the response.

The response of a plain function, or of a generator that never pauses, is returned immediately; otherwise there is a
`RunningRequest`. A large frame is decoded in a thread.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from types import GeneratorType
from typing import Any, TypeAlias

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, RemoteProtocolError
from trimaran.wire.messages.header import decode_request_header
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget
from trimaran.wire.transport.dispatch.responding import encode_or_refuse, refusal, respond
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.memory.pools import ELEMENT_BYTES
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo
from trimaran.wire.transport.requests.elements import FROZEN_ELEMENTS_MIN, HEAVY_BYTES
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute, Handling

Dispatched: TypeAlias = Outgoing | RunningRequest | None
# Exceptions that propagate out of a handler that has not paused yet: the request may be malformed.
_PASSES = (CloseConnection, RemoteProtocolError)


def decode(
    route: Route, frame: memoryview, budget: DecodeBudget, connection: ConnectionInfo
) -> tuple[Call, Any]:
    """Returns the request in `frame`, or a copy of the bytes for a handler that takes bytes. The records of a request
    are views of `frame`.

    Trailing bytes are ignored, as in Kafka: librdkafka 2.16 sends three bytes too many when it requests the metadata of
    all topics.
    """
    header, start = decode_request_header(frame, budget)
    size = len(frame)
    if route.takes_frame:
        return Call(header, connection, time.monotonic(), size, size, size > HEAVY_BYTES), bytes(
            frame
        )
    if budget is DECODE_BUDGET:
        budget = route.budget
    elif budget.elements_max > route.elements_max:
        budget = budget._replace(elements_max=route.elements_max)
    version = header.api_version
    request, _, elements = route.request.decode_counted(frame[start:], version, budget)
    if elements >= FROZEN_ELEMENTS_MIN:
        gc.freeze()
    held = size + elements * ELEMENT_BYTES
    return Call(header, connection, time.monotonic(), size, held), request


def begin(route: Route, call: Call, request: Any, context: Any) -> Dispatched:
    """Runs the handler. Returns the response, None if the request gets no response, or the running request.

    Raises:
        CloseConnection: the handler requests that the connection be closed, or no response can carry its error.
        RemoteProtocolError: the request is malformed.
    """
    if route.hooks is not None:
        route.hooks.begin(call)
    if route.once is not None and not call.heavy:
        request = route.once(request)
    if route.context_of is not None:
        context = route.context_of(context)
    found: Any
    try:
        found = route.handler(request, context, call)
        if type(found) is GeneratorType:
            running = RunningRequest(route, call, request, found)
            found = running.run(found.send, None)
            if isinstance(found, RunningRequest):
                return found
    except _PASSES:
        raise
    except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
        found = route.as_kafka_error(error)
        error.__traceback__ = None  # its frames refer to the error and to the request: a cycle
    if call.heavy:
        return RunningRequest(route, call, request, known=found)
    return respond(route, request, found, call)


def nested(
    route: Route,
    frame: memoryview,
    context: Any,
    connection: ConnectionInfo,
    outer: Call,
    *,
    is_heavy: bool,
) -> Handling[Outgoing | None]:
    """Handles the request in `frame`, which is embedded in the request of `outer`, inside the handler of `outer`.

    Its effects are effects of that handler, and its response is counted, bounded and held in the room of `outer`.
    Returns the response.

    Raises:
        CloseConnection: no response can carry the error.
        RemoteProtocolError: the request is malformed.
    """
    cost = INLINE_COST_MAX + 1 if is_heavy else 0
    call: Call
    call, request = yield Compute(cost, partial(decode, route, frame, DECODE_BUDGET, connection))
    call.heavy = is_heavy
    call.share_room(outer)
    if route.hooks is not None:
        route.hooks.begin(call)
    if route.once is not None:
        request = yield Compute(cost, partial(route.once, request))
    if route.context_of is not None:
        context = route.context_of(context)
    try:
        found = route.handler(request, context, call)
        if type(found) is GeneratorType:
            found = yield from found
    except _PASSES:
        raise
    except Exception as error:  # noqa: BLE001 - it is the answer
        known = route.as_kafka_error(error)
        error.__traceback__ = None  # its frames refer to the error and to the request: a cycle
        version = call.header.api_version
        found = yield Compute(cost, partial(refusal, route, request, known, version))
    route.ended(call, found)
    cost = INLINE_COST_MAX + 1 if call.is_large else 0
    response: Outgoing | None = yield Compute(
        cost, partial(encode_or_refuse, route, request, found, call.header)
    )
    return response
