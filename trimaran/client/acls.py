"""ACLs as reported by brokers, their meaning, and their changes.

A resource is written as TYPE/NAME, such as `topic/orders`; `topic/orders-*` is a prefix, `topic/*` means all topics,
and `cluster` is the cluster. Operations have Kafka's names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.configs import reported_configs
from trimaran.errors.refused import Needs, check
from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.metadata.acls import Acl, known
from trimaran.quorum.metadata.authorizer import AclIndex, judge
from trimaran.quorum.metadata.image import BROKER_RESOURCE
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from trimaran.wire.messages.describe_acls import DescribeAclsRequest
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from trimaran.wire.text.hosts import are_same_hosts

if TYPE_CHECKING:
    from trimaran.quorum.metadata.authorizer import Verdict
    from trimaran.wire.blocking import BlockingClient

_ANY = 1  # the value that matches anything, for every enumeration in a filter
_RULES = ("super.users", "allow.everyone.if.no.acl.found")


class Pattern(NamedTuple):
    """The resource of an ACL, in Kafka's numbers."""

    resource_type: int
    name: str
    pattern_type: int


def parse_pattern(text: str) -> Pattern:
    """Parses a pattern such as `topic/orders-*`. Raises: UserError: there is no such type, or the name is missing."""
    types = {entry.name.lower().replace("_", "-"): entry for entry in ResourceType if entry > _ANY}
    word, slash, name = text.partition("/")
    kind = types.get(word.lower())
    if kind is ResourceType.CLUSTER and not slash:
        name = CLUSTER_NAME
    if kind is None or not name:
        raise UserError(
            f"{text!r} is not a resource of ACLs",
            (kind is None and did_you_mean(word.lower(), types))
            or f"it is written TYPE/NAME, and TYPE is one of {', '.join(types)}",
            "write topic/orders, topic/orders-*, group/readers or cluster",
            exit_code=Exit.USAGE,
        )
    if name.endswith("*") and name != "*":
        return Pattern(kind, name[:-1], PatternType.PREFIXED)
    return Pattern(kind, name, PatternType.LITERAL)


def parse_operations(text: str) -> list[Operation]:
    """Parses a list such as `read,describe-configs`.

    Raises:
        UserError: there is no such operation.
    """
    known = {entry.name.lower().replace("_", "-"): entry for entry in Operation if entry > _ANY}
    found = [known.get(word.strip().lower().replace("_", "-")) for word in text.split(",")]
    operations = [operation for operation in found if operation is not None]
    if len(operations) < len(found):
        wrong = text.split(",")[found.index(None)].strip().lower()
        raise UserError(
            f"{text!r} is not an operation",
            did_you_mean(wrong, known) or f"the operations are {', '.join(known)}",
            "name one, or several separated by commas",
            exit_code=Exit.USAGE,
        )
    return operations


def verdict_of(acls: list[Acl], principal: str, host: str, action: Any) -> Verdict:
    """Returns the decision that follows from the ACLs alone."""
    return judge(AclIndex.of(acls), principal, host, action, allow_if_no_acl=False)


def sets_more_rules(client: BlockingClient) -> bool:
    """Whether the file of a broker may allow more than the ACLs: the values of `super.users` and
    `allow.everyone.if.no.acl.found` are never shown, only that they are set. Also true if this client may not describe
    the broker.
    """
    client.refresh()
    node = min(client.routing.nodes)
    try:
        told = reported_configs(client, BROKER_RESOURCE, [str(node)], node, [*_RULES])
    except KafkaError:
        return True
    return bool(told[str(node)])


def acls_of(client: BlockingClient, pattern: Pattern | None, principal: str | None) -> list[Acl]:
    request = DescribeAclsRequest(
        resource_type_filter=_ANY if pattern is None else pattern.resource_type,
        resource_name_filter=None if pattern is None else pattern.name,
        pattern_type_filter=_ANY if pattern is None else PatternType.MATCH,
        principal_filter=principal,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    response = client.call(None, request)
    check(response.error_code, response.error_message, needs=Needs("DESCRIBE"))
    return sorted(
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def are_present(
    client: BlockingClient, pattern: Pattern, principal: str, wanted: Iterable[Acl]
) -> bool:
    """Returns whether all of these ACLs exist already; False if the client may not see them."""
    try:
        return set(wanted) <= set(acls_of(client, pattern, principal))
    except KafkaError:
        return False


def create_acls(client: BlockingClient, acls: Iterable[Acl]) -> None:
    """Adds ACLs. Raises KafkaError."""
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    for result in client.call(None, CreateAclsRequest(creations=creations)).results:
        check(result.error_code, result.error_message, needs=Needs("ALTER"))


def delete_acls(client: BlockingClient, acls: Iterable[Acl]) -> int:
    """Removes exactly these ACLs. Returns the number of those that there were. Raises KafkaError."""
    filters = [
        DeleteAclsFilter(
            resource_type_filter=acl.resource_type,
            resource_name_filter=acl.resource_name,
            pattern_type_filter=acl.pattern_type,
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    removed = 0
    for result in client.call(None, DeleteAclsRequest(filters=filters)).filter_results:
        check(result.error_code, result.error_message, needs=Needs("ALTER"))
        removed += len(result.matching_acls)
    return removed


def in_any_notation(wanted: Iterable[Acl], present: Iterable[Acl]) -> list[Acl]:
    """Returns the present ACLs that differ from a wanted one at most in the notation of the host: Kafka's tool, for
    example, is often given Java's `0:0:0:0:0:0:0:1` for `::1`.
    """
    hosts = {acl._replace(host=""): acl.host for acl in wanted}
    return [
        acl
        for acl in present
        if (host := hosts.get(acl._replace(host=""))) is not None and are_same_hosts(host, acl.host)
    ]


def acl_row(acl: Acl) -> dict[str, Any]:
    prefix = "*" if acl.pattern_type == PatternType.PREFIXED else ""
    kind = _word(known(ResourceType, acl.resource_type).name)
    return {
        "permission": _word(known(Permission, acl.permission).name),
        "operation": _word(known(Operation, acl.operation).name),
        "principal": acl.principal,
        "host": acl.host,
        "resource": kind if kind == "cluster" else f"{kind}/{acl.resource_name}{prefix}",
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")
