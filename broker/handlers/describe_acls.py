"""DescribeAcls (29): the ACLs that a filter matches, by what this node knows. Only where there is an authorizer."""

from __future__ import annotations

from trimaran.broker.handlers.context import Context
from trimaran.quorum.serving.describe_acls import answer
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles


@handles(DescribeAclsRequest, versions="0-3", access=cluster(Operation.DESCRIBE))
async def describe_acls(
    request: DescribeAclsRequest, ctx: Context, call: Call
) -> DescribeAclsResponse:
    return await answer(request, ctx, call, ctx.metadata.image.acls)
