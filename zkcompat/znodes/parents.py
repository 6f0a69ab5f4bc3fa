"""The parents that exist in every ZooKeeper-mode cluster, without data."""

from __future__ import annotations

# Users' ACLs came with Kafka 3.0 (KIP-373). kafka-acls of Kafka 1.1 fails when it sees these parents.
USER_ACL_PARENTS = ("/kafka-acl/User", "/kafka-acl-extended/prefixed/User")
# These parents existed if brokers had a secret for delegation tokens.
TOKEN_PARENTS = (
    "/delegation_token",
    "/delegation_token/token_changes",
    "/delegation_token/tokens",
)
ACL_TYPES = ("DelegationToken", "Topic", "Group", "Cluster", "User", "TransactionalId")
_OF_OLD = tuple(kind for kind in ACL_TYPES if kind != "User")

# All parents, each before its children.
FIXED_PARENTS = (
    "/cluster",
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/config",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/admin",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/kafka-acl",
    *(f"/kafka-acl/{kind}" for kind in _OF_OLD),
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"/kafka-acl-extended/prefixed/{kind}" for kind in _OF_OLD),
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)
