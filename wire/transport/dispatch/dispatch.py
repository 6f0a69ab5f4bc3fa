"""From the bytes of one request to those of its response: decode, call the handler, await, encode.

A handler answers at once or in two stages: `begin` runs the first, `DeferredFrame.finish` the second. What is large is
decoded and encoded in a thread, and handled in slices.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.header import RequestHeader, decode_request_header, encode_response
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget, Message
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.memory.pools import ELEMENT_BYTES
from trimaran.wire.transport.requests.calls import (
    Call,
    CloseConnection,
    ConnectionInfo,
    DeferredResponse,
)
from trimaran.wire.transport.requests.elements import FROZEN_ELEMENTS_MIN, HEAVY_BYTES
from trimaran.wire.transport.requests.slices import ITEMS_PER_SLICE, Slices
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Slices whose answers are taken out of the collector's sight together, as their request is.
SLICES_FROZEN = FROZEN_ELEMENTS_MIN // ITEMS_PER_SLICE


@dataclass(slots=True)
class DeferredFrame:
    """A deferred answer with what is needed to encode it."""

    deferred: DeferredResponse[Any]
    route: Route
    call: Call
    # Bytes of the request that stay in memory meanwhile, about.
    held: int = 0
    # The connection's next request must not begin before this is answered: its effects come in stage two.
    alone: bool = False

    def ready(self) -> bool:
        return self.deferred.ready is not None and self.deferred.ready()

    async def finish(self) -> Outgoing | None:
        """Awaits and encodes the response; what answers a large request may be large, and is made in a thread.

        Raises:
            CloseConnection: there is no answer for what went wrong.
        """
        try:
            response = await self._known()
            try:
                return await self._encoded(response)
            except ResponseTooLarge as error:
                return await self._encoded(self._error(error))
        except ResponseTooLarge as error:
            raise _even_in_errors(self.route) from error
        finally:
            self.call.close_room()

    async def _known(self) -> Message | Outgoing | None:
        try:
            response: Message | Outgoing | None = await self.deferred.finish()
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            # Kept in no variable here: an error keeps this frame, and the request with it.
            response = await self._refused(self.route.as_kafka_error(error))
        self.route.ended(self.call, response)
        return response

    async def _refused(self, error: KafkaError) -> Message:
        if self.call.heavy:
            return await run_apart(self._error, error)
        return self._error(error)

    async def _encoded(self, response: Message | Outgoing | None) -> Outgoing | None:
        if self.call.is_large:
            whom = self.call.connection.id
            return await run_apart(_encode, response, self.call.header, whom=whom)
        return _encode(response, self.call.header)

    def _error(self, error: KafkaError) -> Message:
        return self.route.error_response(
            error, self.call.header.api_version, self.deferred.on_error
        )


Answer = Outgoing | DeferredFrame | None


def decode(
    route: Route, frame: memoryview, budget: DecodeBudget, connection: ConnectionInfo
) -> tuple[Call, Any]:
    """The request in `frame`, or for a handler that takes no more the bytes of that; that of an async handler on bytes
    of its own, as the receive buffer has moved on by then.

    What follows it is ignored, as Kafka ignores it: librdkafka 2.16 asks for the metadata of all topics with three
    bytes too many.
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
    body = bytes(frame[start:]) if route.is_async else frame[start:]
    request, _, elements = route.request.decode_counted(body, header.api_version, budget)
    if elements >= FROZEN_ELEMENTS_MIN:
        gc.freeze()
    held = size + elements * ELEMENT_BYTES
    return Call(header, connection, time.monotonic(), size, held), request


def begin(route: Route, call: Call, request: Any, context: Any) -> Answer:
    """Stage one of the handler, and the answer if that gives it."""
    if route.hooks is not None:
        route.hooks.begin(call)
    if route.once is not None:
        request = route.once(request)
    found = _stage_one(route, request, context, call)
    if isinstance(found, DeferredFrame):
        return found
    if isinstance(found, KafkaError):
        found = route.error_response_to(request, found, call.header.api_version)
    route.ended(call, found)
    return _encode_or_refuse(route, request, found, call.header)


async def begin_heavy(route: Route, call: Call, request: Any, context: Any) -> Answer:
    """As `begin`; the answer is made in a thread, and hooks are called here."""
    if route.hooks is not None:
        route.hooks.begin(call)
    if not route.takes_frame:
        call.heavy = True
    if route.once is not None:
        request = await run_apart(route.once, request, whom=call.connection.id)
    if route.slices is not None and route.slices.are_several(request):
        handling = _handling_slices(route, route.slices, request, context, call)
        return DeferredFrame(handling, route, call, call.held, alone=True)
    found = _stage_one(route, request, context, call)
    if isinstance(found, DeferredFrame):
        return found
    if isinstance(found, KafkaError):
        version = call.header.api_version
        found = await run_apart(route.error_response_to, request, found, version)
    route.ended(call, found)
    whom = call.connection.id
    return await run_apart(_encode_or_refuse, route, request, found, call.header, whom=whom)


def _stage_one(
    route: Route, request: Any, context: Any, call: Call
) -> Message | Outgoing | DeferredFrame | KafkaError | None:
    """What the handler returns, or raises."""
    if route.is_async:
        return DeferredFrame(_handling(route, request, context, call), route, call, call.held)
    try:
        response = route.handler(request, context, call)
    except (CloseConnection, RemoteProtocolError):
        raise
    except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
        return route.as_kafka_error(error)
    if isinstance(response, DeferredResponse):
        return DeferredFrame(response, route, call, call.held if response.holds_request else 0)
    found: Message | Outgoing | None = response
    return found


def _handling(route: Route, request: Any, context: Any, call: Call) -> DeferredResponse[Any]:
    """An async handler runs when its turn comes."""

    async def finish() -> Message | Outgoing | None:
        try:
            handling: Awaitable[Message | Outgoing | None] = route.handler(request, context, call)
            return await handling
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            return await refused(route.as_kafka_error(error))

    async def refused(error: KafkaError) -> Message:
        version = call.header.api_version
        if route.takes_frame:
            return await run_apart(_error_response_to_frame, route, request, error)
        if call.heavy:
            return await run_apart(route.error_response_to, request, error, version)
        return route.error_response_to(request, error, version)

    on_error = None
    if route.on_error is not None and not route.takes_frame:
        on_error = partial(route.on_error, request)
    return DeferredResponse(cast(Any, finish), on_error=on_error)


def _handling_slices(
    route: Route, slices: Slices, request: Message, context: Any, call: Call
) -> DeferredResponse[Any]:
    """One slice after the other; of what is answered only the bytes are kept. An error of the whole, of any slice, is
    the answer to all.
    """
    room = call.room()

    async def handle(part: Message) -> Message:
        response = route.handler(part, context, call)
        if isinstance(response, DeferredResponse):
            response = await response.finish()
        elif route.is_async:
            response = await response
        slices.encode(response, room)
        await room.pause()
        return cast(Message, response)

    async def finish() -> Message:
        parts = slices.of(request)
        whole = await handle(next(parts)[0])
        for number, (part, goes_on) in enumerate(parts, 1):
            if getattr(whole, "error_code", ErrorCode.NONE):
                break
            await yield_to_loop()
            answer = await handle(part)
            if getattr(answer, "error_code", ErrorCode.NONE):
                return answer
            slices.join(whole, answer, goes_on)
            if number % SLICES_FROZEN == 0:
                gc.freeze()
        return whole

    on_error = None if route.on_error is None else partial(route.on_error, request)
    return DeferredResponse(cast(Any, finish), on_error=on_error)


def _error_response_to_frame(route: Route, frame: bytes, error: KafkaError) -> Message:
    """Raises CloseConnection: what was passed on is no such request, or there is no answer for what went wrong."""
    budget = route.budget
    try:
        header, start = decode_request_header(frame, budget)
        request = route.request.decode_prefix(frame[start:], header.api_version, budget)[0]
    except RemoteProtocolError as malformed:
        raise CloseConnection(str(malformed)) from malformed
    return route.error_response_to(request, error, header.api_version)


def _encode_or_refuse(
    route: Route, request: Any, response: Message | Outgoing | None, header: RequestHeader
) -> Outgoing | None:
    """A response that is too large becomes the error of its API.

    Raises:
        CloseConnection: that has no place for it, or is too large itself.
    """
    try:
        return _encode(response, header)
    except ResponseTooLarge as error:
        refused = route.error_response_to(request, error, header.api_version)
    try:
        return _encode(refused, header)
    except ResponseTooLarge as error:
        raise _even_in_errors(route) from error


def _even_in_errors(route: Route) -> CloseConnection:
    """Only of a request that names so many megabytes itself."""
    return CloseConnection(
        f"{route.request.__name__} cannot be answered: its errors alone are too large"
    )


def _encode(response: Message | Outgoing | None, header: RequestHeader) -> Outgoing | None:
    """Bytes are the answer of another node to which the request was passed on, header and all."""
    if response is None or isinstance(response, Outgoing):
        return response
    return encode_response(response, header.api_version, header.correlation_id)
