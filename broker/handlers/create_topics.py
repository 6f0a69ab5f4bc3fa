"""CreateTopics (19): decided by the controller; the answer waits until this broker knows the topics too."""

from __future__ import annotations

import trio

from broker.context import Context
from wire.errors import ErrorCode
from wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.transport.calls import Call
from wire.transport.registry import handles

# The client will ask this broker for metadata next; a broker far behind must not hold the answer back.
SEEN_SECONDS = 1.0


def _fail(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


@handles(CreateTopicsRequest, versions="0-7", on_error=_fail)
async def create_topics(
    request: CreateTopicsRequest, ctx: Context, call: Call
) -> CreateTopicsResponse:
    response = await ctx.forwarder.forward(request, call, CreateTopicsResponse)
    if not request.validate_only:
        names = [topic.name for topic in response.topics if not topic.error_code]
        with trio.move_on_after(SEEN_SECONDS):
            await ctx.metadata.wait_for(
                lambda image: all(name in image.topics.by_name for name in names)
            )
    return response
