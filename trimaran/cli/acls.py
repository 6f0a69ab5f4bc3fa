"""`acls list|add|remove|explain`: the operations that principals may do. Works with Apache Kafka, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, KafkaFormat, say, show_fields, show_rows
from trimaran.client import acls as client_acls
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.quorum.metadata import acls, authorizer
from trimaran.quorum.serving import audit
from trimaran.wire.security import acls as security_acls

if TYPE_CHECKING:
    from trimaran.client.acls import Pattern

Principal = Annotated[str, Parameter(help="A principal, as User:alice; User:* is every user.")]
Operations = Annotated[
    str, Parameter(help="One or several operations, as read or read,describe; all for all of them.")
]
Resource = Annotated[
    str,
    Parameter(
        help="TYPE/NAME: topic/orders, group/readers, transactional-id/pay, delegation-token/ID, user/User:bob; or "
        "cluster. topic/orders-* is a prefix, topic/* all topics."
    ),
]
Host = Annotated[str, Parameter(help="The client's IP address; * is any.")]
COLUMNS = ("permission", "operation", "principal", "host", "resource")


def list_acls(
    resource: Annotated[
        str | None,
        Parameter(help="Only ACLs that apply to this resource, as topic/orders; by default all."),
    ] = None,
    /,
    *,
    principal: Annotated[
        str | None, Parameter(help="Only ACLs of this principal, as User:alice.")
    ] = None,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> int:
    """Lists ACLs: all, or those that apply to a resource by its name, by a prefix of it, or by *."""
    pattern = None if resource is None else client_acls.parse_pattern(resource)
    with brokers.connected() as client:
        found = client_acls.acls_of(client, pattern, principal)
    show_rows(
        [client_acls.acl_row(acl) for acl in found],
        output,
        columns=COLUMNS,
        noun="ACL",
        kafka=lambda: kafka_text.acls(_kafka_row(acl) for acl in found),
    )
    return Exit.OK


def add(
    principal: Principal,
    operations: Operations,
    resource: Resource,
    /,
    *,
    host: Host = "*",
    deny: Annotated[bool, Parameter(name="--deny", negative=())] = False,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Adds ACLs that allow operations of a principal on a resource, or forbid them with --deny.

    Args:
        deny: Forbid the operations, whatever other ACLs allow.
    """
    pattern = client_acls.parse_pattern(resource)
    wanted = _wanted(pattern, principal, host, operations, deny=deny)
    with brokers.connected() as client:
        if dry_run:
            new = set(wanted).difference(client_acls.acls_of(client, pattern, principal))
            say(f"would add {counted(len(new), 'ACL')}; nothing was changed")
            return
        are_present = client_acls.are_present(client, pattern, principal, wanted)
        client_acls.create_acls(client, wanted)
    verb = f"{'already ' if are_present else ''}{'denied' if deny else 'allowed'}"
    say(f"{verb} {operations} on {resource} to {principal}{_from(host)}")


def remove(
    principal: Principal,
    operations: Operations,
    resource: Resource,
    /,
    *,
    host: Host = "*",
    deny: Annotated[bool, Parameter(name="--deny", negative=())] = False,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Removes ACLs: those that `acls add` with the same arguments adds. Their host may be written in another notation.

    Args:
        deny: Remove ACLs that forbid.
    """
    pattern = client_acls.parse_pattern(resource)
    wanted = _wanted(pattern, principal, host, operations, deny=deny)
    with brokers.connected() as client:
        present = client_acls.acls_of(client, pattern, principal)
        found = client_acls.in_any_notation(wanted, present)
        removed = len(found) if dry_run or not found else client_acls.delete_acls(client, found)
    if not removed:
        raise UserError(
            "there is no such ACL",
            f"no ACL is exactly this one of {principal} on {resource}",
            f"trimaran acls list {resource} shows those that apply",
            exit_code=Exit.NO,
        )
    if dry_run:
        say(f"would remove {counted(removed, 'ACL')}; nothing was changed")
    else:
        say(f"removed {counted(removed, 'ACL')}")


def explain(
    principal: Principal,
    operation: Annotated[str, Parameter(help="One operation, as read.")],
    resource: Annotated[str, Parameter(help="TYPE/NAME, as topic/orders; or cluster.")],
    /,
    *,
    host: Annotated[
        str, Parameter(help="The client's IP address; by default only ACLs for any address apply.")
    ] = "",
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Says whether a principal may do something, and which ACL decides. Exit code 1 if it may not."""
    pattern, (wanted, *others) = (
        client_acls.parse_pattern(resource),
        client_acls.parse_operations(operation),
    )
    if others or pattern.pattern_type == security_acls.PatternType.PREFIXED:
        raise UserError(
            f"{operation} {resource} is more than one question",
            "it is about one operation on one resource, by its full name",
            "for example trimaran acls explain User:alice read topic/orders",
            exit_code=Exit.USAGE,
        )
    action = authorizer.Action(
        wanted, security_acls.ResourceType(pattern.resource_type), pattern.name
    )
    with brokers.connected() as client:
        more = client_acls.sets_more_rules(client)
        verdict = client_acls.verdict_of(
            client_acls.acls_of(client, pattern, None), principal, host, action
        )
    show_fields({"allowed": verdict.allowed, "by": audit.why(verdict)}, output)
    if more and not verdict.allowed:
        say(
            "the broker does not show its super.users and allow.everyone.if.no.acl.found, which may allow it: "
            "look into its file"
        )
    return Exit.OK if verdict.allowed else Exit.NO


def _wanted(
    pattern: Pattern, principal: str, host: str, operations: str, *, deny: bool
) -> list[acls.Acl]:
    permission = security_acls.Permission.DENY if deny else security_acls.Permission.ALLOW
    return [
        acls.Acl(
            *(pattern.resource_type, pattern.name, pattern.pattern_type, principal),
            *(host, operation, permission),
        )
        for operation in client_acls.parse_operations(operations)
    ]


def _kafka_row(acl: acls.Acl) -> dict[str, str]:
    """Returns the row with Kafka's names."""
    return {
        "resource_type": acls.known(security_acls.ResourceType, acl.resource_type).name,
        "name": acl.resource_name,
        "pattern_type": acls.known(security_acls.PatternType, acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acls.known(security_acls.Operation, acl.operation).name,
        "permission": acls.known(security_acls.Permission, acl.permission).name,
    }


def _from(host: str) -> str:
    return "" if host == "*" else f" from {host}"
