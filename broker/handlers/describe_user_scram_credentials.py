"""DescribeUserScramCredentials (50): lists the SCRAM mechanisms and iterations of users, from the broker's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.metadata.scram import describe_scram as describe
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute, Handling


@handles(
    DescribeUserScramCredentialsRequest,
    versions="0",
    access=cluster(Operation.DESCRIBE),
    elements_max=MANY_ELEMENTS_MAX,
)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: AdminContext, call: Call
) -> Handling[DescribeUserScramCredentialsResponse]:
    scram, room = ctx.metadata.image.scram, call.room()
    room.expect(len(scram) * OBJECT_BYTES)
    yield None
    cost = ITEM_COST_BYTES * (len(scram) + len(request.users or ()))
    results: Iterator[DescribeUserScramCredentialsResult] = yield Compute(
        cost, partial(describe, request, scram)
    )
    return DescribeUserScramCredentialsResponse(results=(yield from room.encoding(results)))
