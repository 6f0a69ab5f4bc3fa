"""DeleteTopics (20): decided by the controller; the answer waits until this broker has forgotten the topics too."""

from __future__ import annotations

import trio

from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.create_topics import SEEN_SECONDS
from trimaran.quorum.controller.handlers.delete_topics import delete_topics as declared
from trimaran.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as


@handles_as(declared, access=BY_CONTROLLER)
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
