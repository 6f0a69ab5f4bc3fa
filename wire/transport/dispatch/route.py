"""A row of the registry: a handler with its declaration, and its error responses.

Source: Kafka's `RequestHandlerHelper` for errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.schema import DECODE_BUDGET, Message
from trimaran.wire.text import events
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.metrics.request_metrics import RequestMetrics
from trimaran.wire.transport.requests.access import needs_of
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX, LIGHT_ELEMENTS_MAX
from trimaran.wire.transport.requests.error_responses import (
    general_error,
    in_version,
)
from trimaran.wire.transport.requests.guard import Judge, guarded
from trimaran.wire.transport.requests.handles import Handled, declaration_of
from trimaran.wire.transport.requests.hooks import Hooks


class Route:
    """One row of the registry: the declaration of a handler (`Handled`), and values derived from it."""

    __slots__ = (
        *("budget", "context_of", "elements_max", "general_error", "handler", "hooks", "log"),
        *("metrics", "on_error", "once", "request", "takes_frame", "versions"),
    )

    def __init__(
        self,
        declared: Handled,
        handler: Callable[..., Any],
        limited_log: LimitedLog,
        hooks: Hooks | None,
        context_of: Callable[[Any], Any] | None,
    ) -> None:
        """Takes the `handler` with the guard that checks its permissions. `context_of` returns the part of the node's
        context that the handler gets; None means all of it.
        """
        self.request = declared.request
        self.versions = declared.versions
        self.on_error = declared.on_error
        self.elements_max = declared.elements_max
        self.takes_frame = declared.takes_frame
        self.once = declared.once
        self.handler = handler
        self.context_of = context_of
        self.log = limited_log
        self.hooks = hooks
        # The response to an error of a request that has no `on_error`.
        self.general_error = None if declared.on_error else general_error(declared.request)
        # The size bounds of a request on an open connection.
        self.budget = DECODE_BUDGET._replace(elements_max=declared.elements_max)
        self.metrics = RequestMetrics(declared.request.__name__.removesuffix("Request"))

    @property
    def is_light(self) -> bool:
        """Whether its requests are decoded on the loop, regardless of their size."""
        return self.takes_frame or self.elements_max in (FEW_ELEMENTS_MAX, LIGHT_ELEMENTS_MAX)

    def ended(self, call: Call, response: Message | Outgoing | None) -> None:
        """Counts the response and calls the hooks, before the response is encoded."""
        self.metrics.ended(call.header.api_version, call.began, response)
        hooks = self.hooks
        if hooks is not None:
            hooks.end(call, response)

    def error_response(
        self,
        error: KafkaError,
        version: int,
        special: Callable[[ErrorCode, str], Message] | None = None,
    ) -> Message:
        """Returns the response for an error of `as_kafka_error`; `special` is the handler's own error response.

        Raises:
            CloseConnection: no response can carry the error.
        """
        if special is not None:
            return in_version(special(error.code, error.message), version)
        if self.general_error is not None and version in self.general_error.versions:
            return self.general_error.build(error.code, error.message)
        raise CloseConnection(f"{self.request.__name__} failed: {error!r}") from error

    def error_response_to(
        self, request: Message | None, error: KafkaError, version: int
    ) -> Message:
        """Returns the result of `error_response` for a request: the handler's own response, or the general one if the
        request was dropped from memory (None).
        """
        on_error = self.on_error if request is not None else None
        special = None if on_error is None else partial(on_error, request)
        return self.error_response(error, version, special)

    def as_kafka_error(self, error: Exception) -> KafkaError:
        """Returns the error that the peer receives for an exception raised by the handler; the text of an unexpected
        exception appears only in our log.
        """
        if isinstance(error, KafkaError):
            return error
        name = self.request.__name__
        self.log.log(events.REQUEST_FAILED, of=name, exc_info=error, request=name)
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error, see the log of the node"
        )


def route_of(
    handler: Callable[..., Any],
    limited_log: LimitedLog,
    judge: Judge | None,
    hooks: Hooks | None,
    context_of: Callable[[Any], Any] | None = None,
) -> Route:
    """Returns the route of a function with `@handles`, with a guard that asks `judge` for permissions.

    Raises:
        TypeError: the function is a coroutine function or an async generator function, a programming error.
    """
    handled = declaration_of(handler)
    if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
        raise TypeError(
            f"handler {handler.__qualname__} is an async function: write a plain function, or a generator function"
            " that yields `Wait` or `Blocking`"
        )
    needs = needs_of(handled.access)
    assert needs, f"{handler!r} does not say who may ask"
    served = handled.request.VERSIONS
    assert served.low <= handled.versions.low <= handled.versions.high <= served.high, handled
    handler = guarded(handler, needs, judge, handled.on_error)
    return Route(handled, handler, limited_log, hooks, context_of)
