"""The answer to DescribeAcls (29), the same of a broker and of a controller: the ACLs that a filter matches, by what
the node knows. Only where there is an authorizer.
"""

from __future__ import annotations

from trimaran.node.runtime.turns import with_checkpoints
from trimaran.quorum.metadata.acls import by_resource, matching
from trimaran.quorum.metadata.image import AclsImage
from trimaran.quorum.serving.authorization import Guarded
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.calls import Call

# Held against the filter between two checkpoints: 3 ms of work.
ACLS_PER_TURN = 1_000


async def answer(
    request: DescribeAclsRequest, ctx: Guarded, call: Call, acls: AclsImage
) -> DescribeAclsResponse:
    """Raises KafkaError: SECURITY_DISABLED; INVALID_REQUEST, the filter asks for what is not known."""
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    room, resources = call.room(), EncodedArray()
    await room.pause(len(acls) * OBJECT_BYTES)
    found = await with_checkpoints(matching(request, acls), ACLS_PER_TURN)
    for resource, its_acls in by_resource(found):
        resources.append(await room.encoded_with(resource, "acls", its_acls))
        await room.pause()
    return DescribeAclsResponse(resources=resources)
