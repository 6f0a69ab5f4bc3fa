"""DeleteTopics (20): deletes topics by name or id."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.topics import delete_topics as decide
from wire.errors import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    responses = [
        DeletableTopicResult(name=name, error_code=code, error_message=message)
        for name in request.topic_names
    ]
    responses += [
        DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message
        )
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=responses)


@handles(DeleteTopicsRequest, versions="0-6", on_error=_fail)
def delete_topics(
    request: DeleteTopicsRequest, ctx: ControllerContext, call: Call
) -> Parked[DeleteTopicsResponse]:
    enabled, version = ctx.config["delete.topic.enable"], call.header.api_version
    return ctx.controller.submit(
        lambda active: decide(request, active.image, enabled=enabled, version=version),
        partial(_fail, request),
    )
