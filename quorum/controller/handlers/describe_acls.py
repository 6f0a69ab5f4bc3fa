"""DescribeAcls (29): the ACLs that a filter matches, by what this node knows. Only where there is an authorizer."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.metadata.acls import describe_acls as describe
from wire.errors import ErrorCode, KafkaError
from wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(DescribeAclsRequest, versions="0-3", access=cluster(Operation.DESCRIBE))
def describe_acls(
    request: DescribeAclsRequest, ctx: ControllerContext, _call: Call
) -> DescribeAclsResponse:
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    return describe(request, ctx.image.acls)
