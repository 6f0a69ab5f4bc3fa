"""DescribeUserScramCredentials (50): mechanisms and iterations of users, by what this broker knows."""

from __future__ import annotations

from broker.handlers.context import Context
from node.runtime.turns import with_checkpoints
from quorum.metadata.scram import describe_scram as describe
from wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call
from wire.transport.heavy import MANY_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.room import OBJECT_BYTES

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
