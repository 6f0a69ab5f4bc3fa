"""CreateTopics (19): creates topics. The controller decides; the response waits until this broker also knows the
topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from trimaran.broker.channels.forwarding import MESSAGE_COST, decode_response
from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.controller.handlers.create_topics import create_topics as declared
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Compute, Handling, Wait

# The client's next request to this broker is for metadata; the bound keeps a lagging broker from delaying the response.
KNOWN_SECONDS = 1.0
# A larger response (about 500 topics) is not decoded; the broker then waits for all requested topics, even refused
# ones.
DECODED_BYTES_MAX = 1 << 20


@handles_as(declared, access=BY_CONTROLLER)
def create_topics(
    request: CreateTopicsRequest, ctx: AdminContext, call: Call
) -> Handling[Outgoing]:
    forwarded = yield from ctx.forwarder.forward_request(request, call)
    if request.validate_only:
        return forwarded
    names = [topic.name for topic in request.topics]
    if len(forwarded) <= DECODED_BYTES_MAX:
        response = yield Compute(
            len(forwarded) * MESSAGE_COST,
            partial(decode_response, forwarded, call, CreateTopicsResponse),
        )
        names = [topic.name for topic in response.topics if not topic.error_code]
    if not _are_known(names, ctx.metadata.image):
        yield Wait(partial(_known, names, ctx))
    return forwarded


def _are_known(names: Sequence[str], image: MetadataImage) -> bool:
    return all(map(image.topics.by_name.__contains__, names))


async def _known(names: Sequence[str], ctx: AdminContext) -> None:
    """Waits until this broker knows the topics, at most `KNOWN_SECONDS`."""
    with trio.move_on_after(KNOWN_SECONDS):
        await ctx.metadata.wait_for(partial(_are_known, names))
