"""DeleteTopics (20): deletes topics. The controller decides; the response waits until this broker has also removed
them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import trio

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.handlers.create_topics import KNOWN_SECONDS
from trimaran.quorum.controller.handlers.delete_topics import delete_topics as declared
from trimaran.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Handling, Wait


@handles_as(declared, access=BY_CONTROLLER)
def delete_topics(
    request: DeleteTopicsRequest, ctx: AdminContext, call: Call
) -> Handling[DeleteTopicsResponse]:
    before = ctx.image.topics
    response = yield from ctx.forwarder.forward(request, call, DeleteTopicsResponse)
    gone = {
        known.id
        for topic in response.responses
        if not topic.error_code and (known := before.by_name.get(topic.name or ""))
    }
    yield Wait(partial(_forgotten, gone, ctx))
    return response


async def _forgotten(gone: Collection[bytes], ctx: AdminContext) -> None:
    """Waits until none of the topics exists on this broker, at most `KNOWN_SECONDS`."""
    with trio.move_on_after(KNOWN_SECONDS):
        await ctx.metadata.wait_for(
            lambda image: not any(topic_id in image.topics.by_id for topic_id in gone)
        )
