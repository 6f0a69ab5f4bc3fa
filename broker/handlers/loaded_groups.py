"""Requests about groups whose shard is being loaded: they wait for it a moment, as some clients never ask again.

A shard of a new `__consumer_offsets` is opened within milliseconds, and the coordinator is told of before. Tools such
as `kafka.tools.ConsumerOffsetChecker` of Kafka 0.8.2 take COORDINATOR_LOAD_IN_PROGRESS for the end. Different from
Kafka, which answers that at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from trimaran.broker.handlers.context import Context
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, DeferredResponse, finished
from trimaran.wire.transport.requests.error_answers import OnError

H = TypeVar("H", bound=Callable[..., Any])


def when_loaded(
    group_ids: Callable[[Any], Iterable[str]], on_error: OnError | None = None
) -> Callable[[H], H]:
    """Has a handler begin when the shards of the groups of its request are loaded, or `LOADED_SECONDS_MAX` are over;
    at once while no shard of this broker is being loaded. `on_error` is that of `handles`.
    """

    def decorate(handler: H) -> H:
        @wraps(handler)
        def begin(request: Message, ctx: Context, call: Call) -> Any:
            if not ctx.groups.runtime.is_loading:
                return handler(request, ctx, call)

            async def finish() -> Any:
                await ctx.groups.wait_loaded(group_ids(request))
                return await finished(handler(request, ctx, call))

            failed = None if on_error is None else partial(on_error, request)
            return DeferredResponse(finish, on_error=failed)

        return cast(H, begin)

    return decorate
