"""`acls list|add|remove|explain`: who may do what. In front of Apache Kafka, too.

A resource is written TYPE/NAME, as `topic/orders`; `topic/orders-*` is a prefix, `topic/*` all of them, and the cluster
is `cluster`. Operations have Kafka's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, counted, say, show_fields, show_rows
from trimaran.client.connect import check
from trimaran.errors import Exit, UserError

if TYPE_CHECKING:
    from quorum.metadata.acls import Acl
    from quorum.metadata.authorizer import Verdict
    from wire.blocking import BlockingClient
    from wire.security.acls import Operation

Principal = Annotated[str, Parameter(help="As User:alice; User:* is everybody.")]
Operations = Annotated[str, Parameter(help="One or several, as read or read,describe; all.")]
Resource = Annotated[
    str,
    Parameter(
        help="TYPE/NAME: topic/orders, group/readers, transactional-id/pay, delegation-token/ID, "
        "user/User:bob; NAME* is a prefix; cluster."
    ),
]
Host = Annotated[str, Parameter(help="An address; * is every one.")]
COLUMNS = ("permission", "operation", "principal", "host", "resource")
_ANY = 1  # of every kind of number in a filter
_RULES = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")


class Pattern(NamedTuple):
    """What an ACL is about, in Kafka's numbers."""

    resource_type: int
    name: str
    pattern_type: int


def parse_pattern(text: str) -> Pattern:
    """`topic/orders-*`.

    Raises:
        UserError: there is no such type, or no name.
    """
    from wire.security.acls import CLUSTER_NAME, PatternType, ResourceType

    types = {one.name.lower().replace("_", "-"): one for one in ResourceType if one > _ANY}
    word, slash, name = text.partition("/")
    kind = types.get(word.lower())
    if kind is ResourceType.CLUSTER and not slash:
        name = CLUSTER_NAME
    if kind is None or not name:
        raise UserError(
            f"{text!r} is nothing that an ACL is about",
            f"it is written TYPE/NAME, and TYPE is one of {', '.join(types)}",
            "topic/orders, topic/orders-*, group/readers, cluster",
            exit_code=Exit.USAGE,
        )
    if name.endswith("*") and name != "*":
        return Pattern(kind, name[:-1], PatternType.PREFIXED)
    return Pattern(kind, name, PatternType.LITERAL)


def parse_operations(text: str) -> list[Operation]:
    """`read,describe-configs`.

    Raises:
        UserError: there is no such operation.
    """
    from wire.security.acls import Operation

    known = {one.name.lower().replace("_", "-"): one for one in Operation if one > _ANY}
    found = [known.get(word.strip().lower().replace("_", "-")) for word in text.split(",")]
    operations = [one for one in found if one is not None]
    if len(operations) < len(found):
        raise UserError(
            f"{text!r} is no operation",
            f"operations are {', '.join(known)}",
            "name one, or several with commas between",
            exit_code=Exit.USAGE,
        )
    return operations


def list_acls(
    resource: Annotated[str | None, Parameter(help="What would count for it; all ACLs.")] = None,
    /,
    *,
    principal: Annotated[str | None, Parameter(help="Only those of this one.")] = None,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Lists ACLs. Of a resource those that count for it: by its name, by prefixes of it, and for all.

    Args:
        output: table, or json.
    """
    pattern = None if resource is None else parse_pattern(resource)
    with brokers.connected() as client:
        found = _described(client, pattern, principal)
    show_rows([_row(acl) for acl in found], output, columns=COLUMNS)
    return Exit.OK


def add(
    principal: Principal,
    operations: Operations,
    resource: Resource,
    /,
    *,
    host: Host = "*",
    deny: Annotated[bool, Parameter(name="--deny", negative=())] = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Allows a principal operations on a resource.

    Args:
        deny: forbids them, whatever else allows them.
    """
    from wire.messages.create_acls import AclCreation, CreateAclsRequest
    from wire.security.acls import Permission

    pattern = parse_pattern(resource)
    creations = [
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=Permission.DENY if deny else Permission.ALLOW,
        )
        for operation in parse_operations(operations)
    ]
    with brokers.connected() as client:
        for one in client.call(None, CreateAclsRequest(creations=creations)).results:
            check(one.error_code, one.error_message)
    verb = "may not" if deny else "may"
    say(f"{principal} {verb} {operations} {resource}{_from(host)}")


def remove(
    principal: Principal,
    operations: Operations,
    resource: Resource,
    /,
    *,
    host: Host = "*",
    deny: Annotated[bool, Parameter(name="--deny", negative=())] = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Removes ACLs: just those that `add` with the same words made.

    Args:
        deny: those that forbid.
    """
    from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from wire.security.acls import Permission

    pattern = parse_pattern(resource)
    filters = [
        DeleteAclsFilter(
            resource_type_filter=pattern.resource_type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.pattern_type,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=Permission.DENY if deny else Permission.ALLOW,
        )
        for operation in parse_operations(operations)
    ]
    removed = 0
    with brokers.connected() as client:
        for one in client.call(None, DeleteAclsRequest(filters=filters)).filter_results:
            check(one.error_code, one.error_message)
            removed += len(one.matching_acls)
    if not removed:
        raise UserError(
            "there is no such ACL",
            f"none says of {principal} and {resource} just that",
            f"trimaran acls list {resource} shows those that count",
            exit_code=Exit.NO,
        )
    say(f"removed {counted(removed, 'ACL')}")


def explain(
    principal: Principal,
    operation: Annotated[str, Parameter(help="As read.")],
    resource: Annotated[str, Parameter(help="TYPE/NAME, as topic/orders; cluster.")],
    /,
    *,
    host: Annotated[str, Parameter(help="The address that the client has.")] = "",
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Says whether a principal may do something, and which ACL decides. The exit code is 1 if it may not.

    Args:
        output: table, or json.
    """
    from quorum.metadata.authorizer import Action
    from quorum.serving.audit import why
    from wire.security.acls import PatternType, ResourceType

    pattern, (wanted, *others) = parse_pattern(resource), parse_operations(operation)
    if others or pattern.pattern_type == PatternType.PREFIXED:
        raise UserError(
            f"{operation} {resource} is more than one question",
            "a node is asked for one operation on one resource by its own name",
            "trimaran acls explain User:alice read topic/orders",
            exit_code=Exit.USAGE,
        )
    action = Action(wanted, ResourceType(pattern.resource_type), pattern.name)
    with brokers.connected() as client:
        rules = _rules(client)
        verdict = _judge(_described(client, pattern, None), rules, principal, host, action)
    show_fields({"allowed": verdict.allowed, "by": why(verdict)}, output)
    if rules is None:
        say("the broker does not tell its super.users: one of them may do everything")
    return Exit.OK if verdict.allowed else Exit.NO


def _judge(
    acls: list[Acl], rules: dict[str, str] | None, principal: str, host: str, action: Any
) -> Verdict:
    """As the nodes do."""
    from quorum.metadata.authorizer import SUPER_USER, AclIndex, judge

    told = rules or {}
    if principal in [one.strip() for one in told.get("super.users", "").split(";")]:
        return SUPER_USER
    everyone = told.get("allow.everyone.if.no.acl.found", "false").lower() == "true"
    return judge(AclIndex.of(acls), principal, host, action, allow_if_no_acl=everyone)


def _rules(client: BlockingClient) -> dict[str, str] | None:
    """What the file of a broker says beside ACLs; None where one may not ask."""
    from quorum.metadata.image import BROKER_RESOURCE
    from wire.client.answers import the_one
    from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    client.refresh()
    node = min(client.routing.nodes)
    asked = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node), configuration_keys=[*_RULES]
    )
    answer = client.call(node, DescribeConfigsRequest(resources=[asked]))
    result = the_one(answer.results, "resource")
    if result.error_code:
        return None
    return {one.name: one.value or "" for one in result.configs}


def _described(client: BlockingClient, pattern: Pattern | None, principal: str | None) -> list[Acl]:
    from quorum.metadata.acls import Acl
    from wire.messages.describe_acls import DescribeAclsRequest
    from wire.security.acls import PatternType

    request = DescribeAclsRequest(
        resource_type_filter=_ANY if pattern is None else pattern.resource_type,
        resource_name_filter=None if pattern is None else pattern.name,
        pattern_type_filter=_ANY if pattern is None else PatternType.MATCH,
        principal_filter=principal,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = client.call(None, request)
    check(answer.error_code, answer.error_message)
    return sorted(
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for resource in answer.resources
        for one in resource.acls
    )


def _row(acl: Acl) -> dict[str, Any]:
    from quorum.metadata.acls import known
    from wire.security.acls import Operation, PatternType, Permission, ResourceType

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


def _from(host: str) -> str:
    return "" if host == "*" else f" from {host}"
