"""Calls handlers as the transport does, without a socket."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

import trio

from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute, Wait


def connection(listener: str = "PLAINTEXT") -> ConnectionInfo:
    return ConnectionInfo(1, listener, ("127.0.0.1", 1), ("127.0.0.1", 2))


def call(request: Message, version: int, on: ConnectionInfo | None = None) -> Call:
    return Call(RequestHeader(request.KEY, version, 1, "test"), on or connection())


def through_wire(request: Any, version: int) -> Any:
    """Returns the request as the broker decodes it in that version; record bytes are writable views, as in a receive
    buffer.
    """
    return type(request).decode(memoryview(bytearray(request.encode(version))), version)


class Paused:
    """A request that the transport resumes when its effect is done; `ready` and `finish` have the meaning that they
    have for its writer.
    """

    def __init__(self, steps: Any, effect: Any, whom: int | None) -> None:
        self.steps = steps
        self.effect = effect
        self.whom = whom

    def ready(self) -> bool:
        return isinstance(self.effect, Wait) and bool(self.effect.ready and self.effect.ready())

    async def finish(self) -> Any:
        return await carried_out(self.steps, [], self.effect, self.whom)


def started(found: Any, whom: int | None = None) -> Any:
    """Starts a handler that is a generator: returns its response, or `Paused` at the first effect that the transport
    does not carry out immediately. `whom` is the id of its connection.
    """
    if not isinstance(found, GeneratorType):
        return found
    step, given = found.send, None
    while True:
        try:
            effect = step(given)
        except StopIteration as end:
            return end.value
        if effect is None:
            step, given = found.send, None
        elif isinstance(effect, Compute) and effect.cost_bytes <= INLINE_COST_MAX:
            step, given = computed(found, effect)
        else:
            return Paused(found, effect, whom)


def computed(steps: Any, effect: Compute) -> tuple[Any, Any]:
    """Resumes the handler after pure computation."""
    try:
        return steps.send, effect.call()
    except Exception as error:  # noqa: BLE001 - it is for the handler
        return steps.throw, error


async def answered(handler: Any, request: Message, context: Any, asked: Call) -> Any:
    """Returns the response of a handler as a client decodes it, including parts that were encoded ahead."""
    response = await finished(handler(request, context, asked))
    version = asked.header.api_version
    return type(response).decode(response.encode(version), version)


def is_known_at_once(steps: Any) -> bool:
    """Whether a handler that is a generator returns its response without yielding an effect; closes it in any case."""
    try:
        next(steps)
    except StopIteration:
        return True
    steps.close()
    return False


async def finished(response: Any) -> Any:
    """Returns the response of a handler, with its effects carried out."""
    if isinstance(response, GeneratorType):
        return await carried_out(response, [])
    return await response.finish() if isinstance(response, Paused) else response


async def carried_out(
    steps: Any, effects: list[Any], begun: Any = None, whom: int | None = None
) -> Any:
    """Returns the response of a handler that is a generator, and adds its effects to `effects`. If the handler has
    already yielded the effect `begun`, it begins by waiting for that.
    """
    step, given = steps.send, None
    if begun is not None:
        step, given = await _carried_out(steps, begun, whom)
    while True:
        try:
            effect = step(given)
        except StopIteration as end:
            return end.value
        effects.append(effect)
        step, given = await _carried_out(steps, effect, whom)


async def _carried_out(steps: Any, effect: Any, whom: int | None) -> tuple[Any, Any]:
    if isinstance(effect, Compute) and effect.cost_bytes <= INLINE_COST_MAX:
        return computed(steps, effect)
    try:
        if effect is None:
            given = await trio.lowlevel.checkpoint()
        elif isinstance(effect, Compute):
            given = await run_apart(effect.call, whom=whom)
        else:
            given = await effect.wait()
        return steps.send, given
    except Exception as error:  # noqa: BLE001 - it is for the handler
        return steps.throw, error
