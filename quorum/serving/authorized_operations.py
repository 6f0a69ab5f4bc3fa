"""The operations that who asks may do, as bits by `AclOperation` (KIP-430).

For Metadata, DescribeCluster, DescribeTopicPartitions and DescribeGroups. What nobody enforces yet everybody may do.
Source: Kafka's `AuthHelper.authorizedOperations`, `AclEntry.supportedOperations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorum.metadata.authorizer import Action
from quorum.serving.authorization import Guarded, may
from quorum.serving.enforced import ENFORCED
from wire.security.acls import CLUSTER_NAME, Operation, ResourceType
from wire.transport.calls import ConnectionInfo

NOT_ASKED = -(1 << 31)

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
_OPEN = {kind: _bits(some - ENFORCED[kind]) for kind, some in OPERATIONS_OF.items()}


def authorized_operations(
    ctx: Guarded, connection: ConnectionInfo, resource_type: ResourceType, name: str
) -> int:
    """The bits for one resource. Raises KafkaError as the authorizer."""
    if ctx.authorizer is None:
        return _ALL[resource_type]
    return _OPEN[resource_type] | _bits(
        operation
        for operation in OPERATIONS_OF[resource_type] & ENFORCED[resource_type]
        if may(ctx, connection, Action(operation, resource_type, name))
    )


def cluster_operations(ctx: Guarded, connection: ConnectionInfo) -> int:
    """None for who may not even look."""
    if not may(ctx, connection, Action(Operation.DESCRIBE)):
        return 0
    return authorized_operations(ctx, connection, ResourceType.CLUSTER, CLUSTER_NAME)
