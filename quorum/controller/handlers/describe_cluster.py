"""DescribeCluster (60) on a controller: describes the controllers by the listener of the request (KIP-919).

A request for brokers is refused with MISMATCHED_ENDPOINT_TYPE.
"""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.serving.authorized_operations import cluster_operations
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE
from trimaran.wire.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from trimaran.wire.security.acls import NOT_ASKED, Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles


@handles(DescribeClusterRequest, versions="0-2", access=cluster(Operation.ALTER))
def describe_cluster(
    request: DescribeClusterRequest, ctx: ControllerContext, call: Call
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        known = request.endpoint_type == BROKERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if call.header.api_version == 0:
            # Version 0 has no endpoint types, and its clients do not know that error.
            code = ErrorCode.INVALID_REQUEST
        return DescribeClusterResponse(
            error_code=code,
            error_message=f"endpoint type {request.endpoint_type} was asked for from a controller",
            cluster_id=ctx.cluster_id,
            brokers=[],
        )
    controllers = [
        DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)
        for controller in ctx.image.cluster.controllers.values()
        for endpoint in controller.listeners
        if endpoint.name == call.connection.listener
    ]
    leader_id = ctx.node.leader.value.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=ctx.cluster_id,
        controller_id=NO_NODE if leader_id is None else leader_id,
        brokers=sorted(controllers, key=lambda controller: controller.broker_id),
        cluster_authorized_operations=(
            cluster_operations(ctx, call)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )
