"""The ACLs of znodes. Source: `ZkData.defaultAcls` of Kafka 3.9.

With `zookeeper.set.acl` the creator has all rights, and all clients may read znodes that are not sensitive;
`/consumers` stays open, since old consumers write there. A secret can only be read by its creator.
"""

from __future__ import annotations

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

SENSITIVE_ROOTS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
_OPEN_PATH = "/consumers"


def acl_of(path: str, *, secured: bool, secret: bool = False) -> list[ACL]:
    """Returns the ACL with which the znode is created."""
    if secret:
        return list(CREATOR_ALL_ACL)
    if not secured or path == _OPEN_PATH:
        return list(OPEN_ACL_UNSAFE)
    if is_sensitive_path(path):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def is_sensitive_path(path: str) -> bool:
    """True if Kafka lets only the creator read."""
    return path.startswith(SENSITIVE_ROOTS)


def is_open_to_others(acl: list[ACL]) -> bool:
    """True if unauthenticated clients have any right to the znode."""
    return any(entry.id.scheme == "world" and entry.perms for entry in acl)


def is_writable_by_others(acl: list[ACL]) -> bool:
    """True if unauthenticated clients may do more than read."""
    return any(entry.id.scheme == "world" and entry.perms & ~1 for entry in acl)
