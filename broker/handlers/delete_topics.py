"""DeleteTopics (20): decided by the controller; the answer waits until this broker has forgotten the topics too."""

from __future__ import annotations

import trio

from broker.handlers.context import Context
from broker.handlers.create_topics import SEEN_SECONDS
from wire.errors import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from wire.primitives import NIL_UUID
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


def _fail(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    named = [(name, NIL_UUID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=message
            )
            for name, topic_id in (
                *named,
                *((topic.name, topic.topic_id) for topic in request.topics),
            )
        ]
    )


@handles(DeleteTopicsRequest, versions="0-6", on_error=_fail, elements_max=DECISION_ELEMENTS_MAX)
async def delete_topics(
    request: DeleteTopicsRequest, ctx: Context, call: Call
) -> DeleteTopicsResponse:
    before = ctx.metadata.image.topics
    response = await ctx.forwarder.forward(request, call, DeleteTopicsResponse)
    gone = {
        known.id
        for topic in response.responses
        if not topic.error_code and (known := before.by_name.get(topic.name or ""))
    }
    with trio.move_on_after(SEEN_SECONDS):
        await ctx.metadata.wait_for(
            lambda image: not any(one in image.topics.by_id for one in gone)
        )
    return response
