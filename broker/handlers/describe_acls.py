"""DescribeAcls (29): the ACLs that a filter matches, by what this node knows. Only where there is an authorizer."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.serving.describe_acls import answer
from wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(DescribeAclsRequest, versions="0-3", access=cluster(Operation.DESCRIBE))
async def describe_acls(
    request: DescribeAclsRequest, ctx: Context, call: Call
) -> DescribeAclsResponse:
    return await answer(request, ctx, call, ctx.metadata.image.acls)
