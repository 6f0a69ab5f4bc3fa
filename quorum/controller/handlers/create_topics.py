"""CreateTopics (19): creates topics, or says what would be created. Not done: create-topic policies, quotas."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.topics import create_topics as decide
from wire.errors import ErrorCode
from wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return CreateTopicsResponse(topics=topics)


@handles(CreateTopicsRequest, versions="0-7", on_error=_fail)
def create_topics(
    request: CreateTopicsRequest, ctx: ControllerContext, _call: Call
) -> Parked[CreateTopicsResponse]:
    controller = ctx.controller
    return controller.submit(
        lambda reign: decide(request, reign.state, controller.rules), partial(_fail, request)
    )
