"""CreateTopics (19): decided by the controller; the answer waits until this broker knows the topics too."""

from __future__ import annotations

import trio

from trimaran.broker.channels.forwarding import decode_answer
from trimaran.broker.handlers.context import Context
from trimaran.quorum.controller.handlers.create_topics import create_topics as declared
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as

# The client will ask this broker for metadata next; a broker far behind must not hold the answer back.
SEEN_SECONDS = 1.0
# A larger answer, of some 500 topics, is not looked at, which would hold the loop: then all that were asked for are
# waited for, also what was refused.
LOOKED_AT_BYTES_MAX = 1 << 20


@handles_as(declared, access=BY_CONTROLLER)
async def create_topics(request: CreateTopicsRequest, ctx: Context, call: Call) -> Outgoing:
    answer = await ctx.forwarder.forward_request(request, call)
    if not request.validate_only:
        names = [topic.name for topic in request.topics]
        if len(answer) <= LOOKED_AT_BYTES_MAX:
            told = decode_answer(answer, call, CreateTopicsResponse)
            names = [topic.name for topic in told.topics if not topic.error_code]
        with trio.move_on_after(SEEN_SECONDS):
            await ctx.metadata.wait_for(
                lambda image: all(name in image.topics.by_name for name in names)
            )
    return answer
