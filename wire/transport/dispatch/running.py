"""A running request: its handler has paused, or waits for an event.

The connection's writer drives it (`proceed`) after all earlier responses are handed to the socket, until the response
is known. See `trimaran.wire.transport.scheduling.effects` for the contract of handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection
from trimaran.wire.transport.dispatch.responding import (
    Outcome,
    Response,
    outcome,
    respond,
    respond_apart,
)
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.deadlines import PendingCall
from trimaran.wire.transport.scheduling.effects import (
    INLINE_COST_MAX,
    Compute,
    Effect,
    Handling,
    Wait,
)
from trimaran.wire.transport.scheduling.loop_time import LoopTimed

# Exceptions that propagate out of a handler that has paused: malformed bytes then came from another peer.
_PASSES = (CloseConnection,)


class RunningRequest:
    """One request, from the first pause of its handler to its response.

    `start` comes first; it is then driven by one task. `close` is safe at any time between two steps.
    """

    __slots__ = (
        *("_effect", "_known", "_request", "_route", "_steps", "_waiting"),
        *("blocks", "call", "held", "is_known", "response"),
    )

    def __init__(
        self,
        route: Route,
        call: Call,
        request: Any,
        steps: Handling[Response] | None = None,
        known: Outcome = None,
    ) -> None:
        """Takes the handler as `steps`; without it, `known` is the outcome, and only the response must be created."""
        self.call = call
        # The approximate bytes of the request that stay in memory.
        self.held = call.held
        # True while the connection's next request must not begin.
        self.blocks = True
        # Whether `response` is known; it is None if the request gets no response.
        self.is_known = False
        self.response: Outgoing | None = None
        self._route = route
        self._request = request
        self._steps = steps
        self._effect: Effect = None
        self._known = known
        self._waiting: PendingCall | None = None

    def run(self, step: Callable[[Any], Effect], given: Any) -> Any:
        """Resumes the handler with `step(given)`; returns its response, or this object at a pause."""
        steps, call = self._steps, self.call
        assert steps is not None
        turn = call.connection.turn
        try:
            effect = step(given)
            while True:
                if effect is None:
                    if turn.is_over() or call.wants_pause:
                        break
                    effect = steps.send(None)
                elif type(effect) is Compute and effect.cost_bytes <= INLINE_COST_MAX:
                    step, given = _computed(steps, effect)
                    effect = step(given)
                else:
                    break
        except StopIteration as end:
            self._steps = None
            return end.value
        self._effect = effect
        if type(effect) is Wait:
            self.blocks = False
            if not effect.holds_request:
                self._request = None
                self.held = 0
        return self

    def ready(self) -> bool:
        """Returns whether `proceed` would make the response known without waiting."""
        effect = self._effect
        return type(effect) is Wait and effect.ready is not None and effect.ready()

    def calls_back(self, call: Callable[[], object]) -> bool:
        """Returns whether `call` will be called when `proceed` has work to do; if not, `proceed` waits for it."""
        if self._waiting is not None:
            return self._waiting.call is not None
        effect = self._effect
        if type(effect) is not Wait or effect.when_ready is None or self.ready():
            return False
        self._waiting = effect.when_ready(call)
        return self._waiting is not None

    async def proceed(self) -> None:
        """Continues until the response is known, or until the next request of the connection may begin.

        Raises:
            CloseConnection: no response can carry the error.
        """
        turn, blocks = self.call.connection.turn, self.blocks
        while not self.is_known and self.blocks is blocks:
            if self._steps is None or self._effect is not None:
                await LoopTimed(self._go_on(), turn)
                continue
            if self.call.wants_pause:
                await LoopTimed(self.call.pause(), turn)
            await turn.begin()
            try:
                found = outcome(self._route, _PASSES, self.run, self._steps.send, None)
            finally:
                turn.end()
            if found is not self:
                self._steps, self._known = None, found

    async def _go_on(self) -> None:
        """Waits for the effect, if there is one, and resumes the handler. Once the handler has ended, creates the
        response, or leaves that to the next call if a thread must create it.
        """
        call, steps = self.call, self._steps
        self._stop_waiting()
        if steps is not None:
            effect, step, given = self._effect, steps.send, None
            try:
                if type(effect) is Compute:
                    given = await run_apart(effect.call, whom=call.connection.id)
                else:
                    given = await effect.wait()  # type: ignore[union-attr]
            except Exception as error:  # noqa: BLE001 - it is for the handler
                step, given = steps.throw, error
            found = outcome(self._route, _PASSES, self.run, step, given)
            given = None  # the traceback of the error refers to this frame, which would refer to the error
            if found is self:
                return
            self._steps, self._known = None, found
        if not call.is_large:
            self._respond(respond(self._route, self._request, self._known, call))
        elif steps is None:
            response = await respond_apart(self._route, self._request, self._known, call)
            self._respond(response)

    def proceed_now(self) -> None:
        """Continues as `proceed` does if the request is `ready`, except for work in a thread, which is left to
        `proceed`.

        Raises:
            CloseConnection: as `proceed` does.
        """
        turn = self.call.connection.turn
        turn.resume()
        try:
            self._go_on().send(None)
        except StopIteration:
            return
        finally:
            turn.pause()
        raise AssertionError("`wait` waits although it is ready")

    def _respond(self, response: Outgoing | None) -> None:
        self.response = response
        self.is_known, self.blocks = True, False
        self._request = self._known = None
        self.call.close_room()

    async def finish(self) -> Outgoing | None:
        """Returns the response, for callers that drive the request themselves.

        Raises:
            CloseConnection: no response can carry the error.
        """
        try:
            while not self.is_known:
                await self.proceed()
        finally:
            self.close()
        return self.response

    def close(self) -> None:
        """Closes the handler if it has not ended: its `finally` blocks run. Releases the memory of the response."""
        if self.is_known:
            return
        self._stop_waiting()
        steps, self._steps = self._steps, None
        if steps is not None:
            outcome(self._route, (), steps.close)
        self.blocks = False
        self._request = None
        self.call.close_room()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None


def _computed(steps: Handling[Response], effect: Compute) -> tuple[Callable[[Any], Effect], Any]:
    try:
        return steps.send, effect.call()
    except Exception as error:  # noqa: BLE001 - it is for the handler
        return steps.throw, error
