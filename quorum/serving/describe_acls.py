"""DescribeAcls (29), on brokers and controllers: returns the ACLs of the node's image that match a filter.

A node without an authorizer refuses the request.
"""

from __future__ import annotations

from functools import partial

from trimaran.quorum.metadata.acls import Acl, by_resource, matching
from trimaran.quorum.serving.authorization import Serving
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute, Handling


@handles(DescribeAclsRequest, versions="0-3", access=cluster(Operation.DESCRIBE))
def describe_acls(
    request: DescribeAclsRequest, ctx: Serving, call: Call
) -> Handling[DescribeAclsResponse]:
    """Returns the matching ACLs. Raises KafkaError: SECURITY_DISABLED; INVALID_REQUEST if the filter has an unknown
    type or operation.
    """
    acls = ctx.image.acls
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    room, resources = call.room(), EncodedArray()
    room.expect(len(acls) * OBJECT_BYTES)
    yield None
    found: list[Acl] = yield Compute(ITEM_COST_BYTES * len(acls), partial(matching, request, acls))
    for resource, its_acls in by_resource(found):
        resources.append((yield from room.encoding_with(resource, "acls", its_acls)))
        yield None
    return DescribeAclsResponse(resources=resources)
