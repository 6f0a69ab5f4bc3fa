"""CreatePartitions (37): adds partitions to topics. Not done: quotas."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.topics import create_partitions as decide
from wire.errors import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(
    request: CreatePartitionsRequest, code: ErrorCode, message: str
) -> CreatePartitionsResponse:
    results = [
        CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return CreatePartitionsResponse(results=results)


@handles(CreatePartitionsRequest, versions="0-3", on_error=_fail)
def create_partitions(
    request: CreatePartitionsRequest, ctx: ControllerContext, _call: Call
) -> Parked[CreatePartitionsResponse]:
    controller = ctx.controller
    return controller.submit(
        lambda active: decide(request, active.image, controller.rules), partial(_fail, request)
    )
