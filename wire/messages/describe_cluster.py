"""DescribeCluster (60): cluster id, controller and nodes (KIP-700).

Versions: 1 a choice of brokers or controllers (KIP-919); 2 fenced brokers (KIP-1073).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_node_id,
    string,
)
from trimaran.wire.identity import NO_NODE
from trimaran.wire.schema import Message, request, response

# The types of endpoints (KIP-919).
BROKERS, CONTROLLERS = 1, 2


@request(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: boolean
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: boolean = field("2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: int32_node_id
    host: string
    port: int32
    rack: string | None = None
    is_fenced: boolean = field("2+", default=False)


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string
    controller_id: int32_node_id = NO_NODE
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = -2147483648
