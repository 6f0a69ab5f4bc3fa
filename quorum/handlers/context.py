"""What the quorum's handlers need of their context: the node. A controller's context has it beside other things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from quorum.raft import messages as core
from quorum.replica.node import QuorumNode
from wire.schema import Message
from wire.transport.calls import Call, DeferredResponse

A = TypeVar("A", bound=core.Response)
R = TypeVar("R", bound=Message)


class QuorumContext(Protocol):
    """The part of a handler context that the handlers of this package use."""

    @property
    def node(self) -> QuorumNode: ...


def defer(
    ctx: QuorumContext,
    call: Call,
    request: core.Request,
    response_class: type[A],
    write: Callable[[A, int], R],
) -> DeferredResponse[R]:
    """Gives the request to the core now; the answer is written when the core has it."""
    pending = ctx.node.handle(request)
    version = call.header.api_version

    async def response() -> R:
        found = await pending()
        assert isinstance(found, response_class)
        return write(cast(A, found), version)

    return DeferredResponse(response, ready=lambda: pending.ready)
