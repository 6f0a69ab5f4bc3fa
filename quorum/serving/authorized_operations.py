"""The operations that a client may perform on a resource, as bits by `AclOperation` (KIP-430).

Used by Metadata, DescribeCluster, DescribeTopicPartitions, DescribeGroups and ConsumerGroupDescribe. Source: Kafka's
`AuthHelper.authorizedOperations`, `AclEntry.supportedOperations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import Guarded, may
from trimaran.wire.security.acls import CLUSTER_NAME, Operation, ResourceType
from trimaran.wire.transport.requests.calls import Call

OPERATIONS_OF: Mapping[ResourceType, frozenset[Operation]] = {
    ResourceType.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
}


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_ALL = {kind: _bits(some) for kind, some in OPERATIONS_OF.items()}


def authorized_operations(ctx: Guarded, call: Call, resource_type: ResourceType, name: str) -> int:
    """Returns the bits for one resource. Raises the authorizer's KafkaError."""
    if ctx.authorizer is None:
        return _ALL[resource_type]
    return _bits(
        operation
        for operation in OPERATIONS_OF[resource_type]
        if may(ctx, call, Action(operation, resource_type, name), asked_for=False)
    )


def cluster_operations(ctx: Guarded, call: Call) -> int:
    """Returns the bits for the cluster; none for a client that may not describe it."""
    if not may(ctx, call, Action(Operation.DESCRIBE)):
        return 0
    return authorized_operations(ctx, call, ResourceType.CLUSTER, CLUSTER_NAME)
