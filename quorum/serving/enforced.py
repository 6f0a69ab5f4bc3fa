"""Which ACLs hold today: the operations on each kind of resource that the authorizer is asked for.

Topics, groups and transactional ids are open, all of them: their ACLs protect only if every request that names one
holds to them. A single answer that neither refuses nor leaves out what its client may not see would let it in.
So they are enforced together, or not yet. Until then an ACL about them is refused (`unjudged_acls`), and a node says
at its start that they are open (`authorization`).
"""

from __future__ import annotations

from collections.abc import Mapping

from wire.security.acls import Operation, ResourceType

# ALL stands where everything that matters is enforced.
ENFORCED: Mapping[ResourceType, frozenset[Operation]] = {
    ResourceType.CLUSTER: frozenset(
        {
            Operation.ALL,
            Operation.ALTER,
            Operation.ALTER_CONFIGS,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
        }
    ),
    ResourceType.TOPIC: frozenset({Operation.ALTER_CONFIGS}),
    ResourceType.GROUP: frozenset({Operation.ALTER_CONFIGS}),
    ResourceType.TRANSACTIONAL_ID: frozenset(),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.ALL, Operation.DESCRIBE}),
    ResourceType.USER: frozenset(
        {Operation.ALL, Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}
    ),
}
