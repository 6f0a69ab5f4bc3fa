"""The numbers of ACLs on the wire and in the metadata log: resources, patterns, operations, permissions.

Source: Kafka's `ResourceType`, `PatternType`, `AclOperation`, `AclPermissionType`. ACLs themselves: see
`trimaran.quorum.metadata.acls`.
"""

from __future__ import annotations

from enum import IntEnum

# The name of the only cluster resource.
CLUSTER_NAME = "kafka-cluster"
# The authorized operations in a response to a request that did not ask for them (KIP-430).
NOT_ASKED = -(1 << 31)


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The types of patterns. ANY and MATCH occur only in filters; MATCH selects all patterns that apply to a resource
    of the given name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
