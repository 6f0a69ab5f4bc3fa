"""DescribeUserScramCredentials (50): mechanisms and iterations of users, by what this broker knows."""

from __future__ import annotations

from trimaran.broker.handlers.context import Context
from trimaran.node.runtime.turns import with_checkpoints
from trimaran.quorum.metadata.scram import describe_scram as describe
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

# Looked at between two checkpoints: 2 ms of work.
CREDENTIALS_PER_TURN = 1_000


@handles(
    DescribeUserScramCredentialsRequest,
    versions="0",
    access=cluster(Operation.DESCRIBE),
    elements_max=MANY_ELEMENTS_MAX,
)
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: Context, call: Call
) -> DescribeUserScramCredentialsResponse:
    scram, room = ctx.metadata.image.scram, call.room()
    await room.pause(len(scram) * OBJECT_BYTES)
    results = await with_checkpoints(describe(request, scram), CREDENTIALS_PER_TURN)
    return DescribeUserScramCredentialsResponse(results=await room.encode(results))
