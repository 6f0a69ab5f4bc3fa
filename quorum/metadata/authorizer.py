"""Authorization by the ACLs of the metadata: DENY takes precedence over ALLOW, and ALLOW over the lack of an ACL.

Source: Kafka's `StandardAuthorizerData`, `Authorizer.authorizeByResourceType`, `AclPublisher`, KIP-801, KIP-679. The
index holds ACLs by resource pattern. A lookup reads the literal name, the wildcard, and the prefixes of the name that
have the length of some ACL's prefix, so its cost does not grow with the number of ACLs. See
`trimaran.quorum.serving.audit` for the audit log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.quorum.metadata.acls import WILDCARD, Acl
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import (
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    AclsImage,
    ConfigResource,
    MetadataImage,
)
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import INITIAL_ACL_EPOCH
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from trimaran.wire.security.principal import Principal
from trimaran.wire.text.hosts import covers_host

WILDCARD_PRINCIPAL = "User:*"

# An ALLOW of these operations implies DESCRIBE; a DENY of them does not deny DESCRIBE.
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
    """An operation on one named resource."""

    operation: Operation
    resource_type: ResourceType = ResourceType.CLUSTER
    resource_name: str = CLUSTER_NAME


def config_resource(resource: ConfigResource) -> tuple[ResourceType, str]:
    """Returns the resource whose ACLs govern the configs of `resource`: the topic, the group or the cluster."""
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        return ResourceType.TOPIC, name
    if kind == GROUP_RESOURCE:
        return ResourceType.GROUP, name
    return ResourceType.CLUSTER, CLUSTER_NAME


def config_refusal(resource: ConfigResource) -> ErrorCode:
    """Returns the error for a principal without that permission. Source: `authorizeAlterResource` of Kafka's
    `ControllerApis`.
    """
    refusals = {
        TOPIC_RESOURCE: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        GROUP_RESOURCE: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
    return refusals.get(resource[0], ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(slots=True)
class AclIndex:
    """An index of ACLs by resource pattern."""

    _by_pattern: dict[_Pattern, set[Acl]] = field(default_factory=dict)
    # The number of prefixes of each length, by resource type.
    _prefix_lengths: dict[int, Counter[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> AclIndex:
        index = cls()
        for acl in acls:
            index.add(acl)
        return index

    def add(self, acl: Acl) -> None:
        found = self._by_pattern.setdefault(_pattern(acl), set())
        if not found and acl.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
            lengths[len(acl.resource_name)] += 1
        found.add(acl)

    def remove(self, acl: Acl) -> None:
        """Removes an ACL; does nothing if it is absent."""
        pattern = _pattern(acl)
        found = self._by_pattern.get(pattern)
        if found is None:
            return
        found.discard(acl)
        if found:
            return
        del self._by_pattern[pattern]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths, length = self._prefix_lengths[acl.resource_type], len(acl.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]

    def about(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yields every ACL whose pattern matches the resource."""
        find = self._by_pattern.get
        yield from find((resource_type, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from find((resource_type, PatternType.LITERAL, WILDCARD), ())
        for end in self._prefix_lengths.get(resource_type, ()):
            if end <= len(name):
                yield from find((resource_type, PatternType.PREFIXED, name[:end]), ())

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        """Yields every ACL for resources of the type. Iterates over the patterns of all types."""
        for pattern, acls in self._by_pattern.items():
            if pattern[0] == resource_type:
                yield from acls


def _pattern(acl: Acl) -> _Pattern:
    return acl.resource_type, acl.pattern_type, acl.resource_name


class Verdict(NamedTuple):
    """An authorization decision with the ACL that determines it; without an ACL, `why` gives the reason."""

    allowed: bool
    acl: Acl | None = None
    why: str = ""


SUPER_USER = Verdict(True, why="super user")
NOTHING_MATCHES = Verdict(False, why="no ACL that applies to the resource allows it")
NO_ACL = Verdict(False, why="no ACL applies to the resource")
EVERYONE = Verdict(True, why="no ACL applies to the resource (allow.everyone.if.no.acl.found)")
SOME_RESOURCE = Verdict(True, why="an ACL allows it for some resource of the type")
NO_RESOURCE = Verdict(False, why="no ACL allows it for any resource of the type")


def judge(
    index: AclIndex, principal: str, host: str, action: Action, *, allow_if_no_acl: bool = False
) -> Verdict:
    """Returns whether `principal` ("User:alice"), connected from `host` (an address), may perform the action, and why.

    `allow_if_no_acl`: the decision for a resource without any ACL (`allow.everyone.if.no.acl.found`).
    """
    nothing_said, allowed = True, NOTHING_MATCHES
    for acl in index.about(action.resource_type, action.resource_name):
        nothing_said = False
        if not _is_about(acl, principal, host, action.operation):
            continue
        if acl.permission != Permission.ALLOW:
            return Verdict(False, acl)
        allowed = Verdict(True, acl)
    if nothing_said:
        return EVERYONE if allow_if_no_acl else NO_ACL
    return allowed


# The name that Kafka checks first, so that super users and open clusters are allowed regardless of the ACLs.
ANY_NAME = "hardcode"


def judge_by_type(
    index: AclIndex, principal: str, host: str, action: Action, *, allow_if_no_acl: bool = False
) -> Verdict:
    """Returns whether there may be a resource of the type on which `principal` may perform the operation; the name in
    `action` is ignored.

    Only ACLs for the operation itself and for ALL are considered: no operation implies another here. An ALLOW is
    effective unless a DENY covers its whole pattern.
    """
    any_name = action._replace(resource_name=ANY_NAME)
    first = judge(index, principal, host, any_name, allow_if_no_acl=allow_if_no_acl)
    if first.allowed:
        return first
    allowed: set[tuple[int, str]] = set()
    denied: set[tuple[int, str]] = set()
    for acl in index.of_type(action.resource_type):
        if _concerns(acl, principal, host) and acl.operation in (Operation.ALL, action.operation):
            patterns = allowed if acl.permission == Permission.ALLOW else denied
            patterns.add((acl.pattern_type, acl.resource_name))
    everything = (PatternType.LITERAL, WILDCARD)
    if everything in denied:
        return NO_RESOURCE
    if everything in allowed or any(not _dominated(pattern, denied) for pattern in allowed):
        return SOME_RESOURCE
    return NO_RESOURCE


def _dominated(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Returns whether a DENY with the same pattern, or with a prefix of its name, covers it."""
    name = pattern[1]
    prefixes = ((PatternType.PREFIXED, name[:end]) for end in range(1, len(name) + 1))
    return pattern in denied or any(prefix in denied for prefix in prefixes)


def _concerns(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, WILDCARD_PRINCIPAL) and (
        acl.host == WILDCARD or covers_host(acl.host, host)
    )


def _is_about(acl: Acl, principal: str, host: str, operation: int) -> bool:
    if not _concerns(acl, principal, host):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    if acl.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in _IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation in _IMPLY_DESCRIBE_CONFIGS


# The number of cached verdicts: clients repeat the same requests. Each takes about 500 bytes with topic names of legal
# length; verdicts about longer names are not cached.
KEPT_MAX = 10_000
KEPT_NAME_MAX = 255


class Authorizer:
    """A `Publisher` that maintains an index of the committed ACLs and authorizes by it.

    `super_users` ("User:alice") may perform every operation. Requests of other principals fail until the initial load
    is complete, because an older snapshot may lack the very ACL that denies the request. `epoch` increases with each
    change of ACLs.
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._index = AclIndex()
        self._loaded = False
        self._kept: dict[tuple[Principal, str, Action, bool], Verdict] = {}
        self.epoch = INITIAL_ACL_EPOCH

    def complete_initial_load(self) -> None:
        """Marks the load as complete: the index has all ACLs that were committed when this node first learned of a
        leader.
        """
        self._loaded = True

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        before: AclsImage = delta.acls.image
        changed = delta.acls.changed
        if not changed:
            return
        # Removals come first, because an ACL may be added again under another id in the same delta.
        for acl_id in changed:
            if (old := before.get(acl_id)) is not None:
                self._index.remove(Acl.of(old))
        for record in changed.values():
            if record is not None:
                self._index.add(Acl.of(record))
        self.epoch += 1
        self._kept.clear()

    def judge(self, principal: Principal, host: str, action: Action) -> Verdict:
        """Returns the verdict for the action.

        Raises KafkaError NOT_CONTROLLER before the initial load is complete: only controllers serve that early, and
        clients and brokers try again. Intentional difference: Kafka's controllers answer with UNKNOWN_SERVER_ERROR,
        which ends a client's request.
        """
        return self._verdict(principal, host, action, by_type=False)

    def judge_by_type(self, principal: Principal, host: str, action: Action) -> Verdict:
        """Returns the verdict for any resource of the type, regardless of its name (KIP-679)."""
        return self._verdict(principal, host, action, by_type=True)

    def _verdict(
        self, principal: Principal, host: str, action: Action, *, by_type: bool
    ) -> Verdict:
        key = (principal, host, action, by_type)
        found = self._kept.get(key)
        if found is not None:
            return found
        found = self._decide(f"{principal.type}:{principal.name}", host, action, by_type=by_type)
        if len(action.resource_name) <= KEPT_NAME_MAX and len(principal.name) <= KEPT_NAME_MAX:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _decide(self, principal: str, host: str, action: Action, *, by_type: bool) -> Verdict:
        if principal in self._super_users:
            return SUPER_USER
        if not self._loaded:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                "this node has not loaded all ACLs yet and authorizes super users only: retry when it has caught up "
                "with the metadata",
            )
        decide = judge_by_type if by_type else judge
        return decide(self._index, principal, host, action, allow_if_no_acl=self._allow_if_no_acl)
