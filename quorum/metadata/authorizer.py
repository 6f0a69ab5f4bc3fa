"""Who may do what, by the ACLs of the metadata: DENY beats ALLOW beats nothing said.

Source: Kafka's `StandardAuthorizerData`, `AclPublisher`, KIP-801. The index holds ACLs by resource pattern; an answer
looks at the literal name, the wildcard and all prefixes of the name, so it costs the length of the name and not the
number of ACLs. Left out: enforcing it in every handler; `authorizeByResourceType`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from quorum.metadata.acls import WILDCARD, Acl
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import (
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    AclsImage,
    ConfigResource,
    MetadataImage,
)
from quorum.metadata.loader import Manifest
from wire.errors import ErrorCode, KafkaError
from wire.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

WILDCARD_PRINCIPAL = "User:*"

# An ALLOW of these allows to look as well; a DENY of these does not forbid to look.
_IMPLY_DESCRIBE = {
    Operation.DESCRIBE,
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
}
_IMPLY_DESCRIBE_CONFIGS = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}

_Pattern = tuple[int, int, str]


class Action(NamedTuple):
    """An operation on one resource, by its own name."""

    operation: Operation
    resource_type: ResourceType = ResourceType.CLUSTER
    resource_name: str = CLUSTER_NAME


def config_resource(resource: ConfigResource) -> tuple[ResourceType, str]:
    """What an ACL must be about to change or see the configs of `resource`: the topic or group itself, else the
    cluster.
    """
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        return ResourceType.TOPIC, name
    if kind == GROUP_RESOURCE:
        return ResourceType.GROUP, name
    return ResourceType.CLUSTER, CLUSTER_NAME


def config_refusal(resource: ConfigResource) -> ErrorCode:
    """What who lacks that ACL is told. Source: `authorizeAlterResource` of Kafka's `ControllerApis`."""
    refusals = {
        TOPIC_RESOURCE: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        GROUP_RESOURCE: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
    return refusals.get(resource[0], ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(slots=True)
class AclIndex:
    """ACLs by the pattern that they are about."""

    _by_pattern: dict[_Pattern, set[Acl]] = field(default_factory=dict)

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> AclIndex:
        index = cls()
        for acl in acls:
            index.add(acl)
        return index

    def add(self, acl: Acl) -> None:
        self._by_pattern.setdefault(_pattern(acl), set()).add(acl)

    def remove(self, acl: Acl) -> None:
        """Takes an ACL away; one that is not there is no error."""
        pattern = _pattern(acl)
        found = self._by_pattern.get(pattern, set())
        found.discard(acl)
        if not found:
            self._by_pattern.pop(pattern, None)

    def about(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Every ACL whose pattern covers the resource."""
        find = self._by_pattern.get
        yield from find((resource_type, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from find((resource_type, PatternType.LITERAL, WILDCARD), ())
        for end in range(1, len(name) + 1):
            yield from find((resource_type, PatternType.PREFIXED, name[:end]), ())


def _pattern(acl: Acl) -> _Pattern:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def allows(
    index: AclIndex, principal: str, host: str, action: Action, *, allow_if_no_acl: bool = False
) -> bool:
    """Whether `principal` ("User:alice"), connected from `host` (an address), may do it.

    `allow_if_no_acl`: the answer for a resource that no ACL at all is about (`allow.everyone.if.no.acl.found`).
    """
    nothing_said, allowed = True, False
    for acl in index.about(action.resource_type, action.resource_name):
        nothing_said = False
        if not _is_about(acl, principal, host, action.operation):
            continue
        if acl.permission != Permission.ALLOW:
            return False
        allowed = True
    return allow_if_no_acl if nothing_said else allowed


def _is_about(acl: Acl, principal: str, host: str, operation: int) -> bool:
    if acl.principal not in (principal, WILDCARD_PRINCIPAL) or acl.host not in (WILDCARD, host):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    if acl.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in _IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation in _IMPLY_DESCRIBE_CONFIGS


class Authorizer:
    """A `Publisher` that keeps an index of the committed ACLs and answers by it.

    `super_users` ("User:alice") may do everything. Others are judged once the initial load is complete: an older
    snapshot may lack the very ACL that forbids what is asked.
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._index = AclIndex()
        self._loaded = False

    def complete_initial_load(self) -> None:
        """The index has all ACLs that were committed when this node first heard of a leader."""
        self._loaded = True

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        before: AclsImage = delta.acls.image
        changed = delta.acls.changed
        # What goes goes first: an ACL may come back under another id in the same delta.
        for acl_id in changed:
            if (old := before.get(acl_id)) is not None:
                self._index.remove(Acl.of(old))
        for record in changed.values():
            if record is not None:
                self._index.add(Acl.of(record))

    def allows(self, principal: str, host: str, action: Action) -> bool:
        """Raises KafkaError UNKNOWN_SERVER_ERROR before the initial load is complete, which Kafka has no code for
        either.
        """
        if principal in self._super_users:
            return True
        if not self._loaded:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "this node has not loaded all ACLs yet and authorizes super users only: retry when it has caught up "
                "with the metadata",
            )
        return allows(self._index, principal, host, action, allow_if_no_acl=self._allow_if_no_acl)
