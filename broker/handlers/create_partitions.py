"""CreatePartitions (37): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


def _fail(
    request: CreatePartitionsRequest, code: ErrorCode, message: str
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


@handles(
    CreatePartitionsRequest, versions="0-3", on_error=_fail, elements_max=DECISION_ELEMENTS_MAX
)
async def create_partitions(request: CreatePartitionsRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
