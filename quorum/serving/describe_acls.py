"""DescribeAcls (29), on brokers and controllers: the ACLs of the node's image that a filter matches.

A node without an authorizer refuses it.
"""

from __future__ import annotations

from trimaran.node.runtime.turns import with_checkpoints
from trimaran.quorum.metadata.acls import by_resource, matching
from trimaran.quorum.serving.authorization import Serving
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles

# Held against the filter between two checkpoints: 3 ms of work.
ACLS_PER_TURN = 1_000


@handles(DescribeAclsRequest, versions="0-3", access=cluster(Operation.DESCRIBE))
async def describe_acls(
    request: DescribeAclsRequest, ctx: Serving, call: Call
) -> DescribeAclsResponse:
    """Raises KafkaError: SECURITY_DISABLED; INVALID_REQUEST, the filter has an unknown type or operation."""
    acls = ctx.image.acls
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    room, resources = call.room(), EncodedArray()
    await room.pause(len(acls) * OBJECT_BYTES)
    found = await with_checkpoints(matching(request, acls), ACLS_PER_TURN)
    for resource, its_acls in by_resource(found):
        resources.append(await room.encoded_with(resource, "acls", its_acls))
        await room.pause()
    return DescribeAclsResponse(resources=resources)
