"""DescribeCluster (60): lists the brokers and a node that takes admin requests (KIP-700).

Versions: 1 brokers or controllers (KIP-919; a broker only lists brokers), 2 fenced brokers as well (KIP-1073).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.metadata.endpoints import endpoint_of
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
from trimaran.wire.security.acls import NOT_ASKED
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles


@handles(
    DescribeClusterRequest,
    versions="0-2",
    access=open_to_all("clients look for brokers; authorized operations are the client's own"),
)
def describe_cluster(
    request: DescribeClusterRequest, ctx: AdminContext, call: Call
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=code,
            error_message="this endpoint tells of brokers only",
            endpoint_type=request.endpoint_type,
            cluster_id=ctx.cluster_id,
            brokers=[],
        )
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in sorted(ctx.metadata.image.cluster.brokers.values(), key=lambda one: one.id)
        if (request.include_fenced_brokers or not broker.fenced)
        and (endpoint := endpoint_of(broker, call.connection.listener)) is not None
    ]
    alive = [broker.broker_id for broker in brokers if not broker.is_fenced]
    return DescribeClusterResponse(
        cluster_id=ctx.cluster_id,
        controller_id=ctx.node_id if ctx.node_id in alive else min(alive, default=NO_NODE),
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(ctx, call)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )
