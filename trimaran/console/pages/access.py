"""Access: ACLs, users and quotas, and a check whether a principal may do an operation, with the ACL that decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trimaran.client.acls import (
    acl_row,
    acls_of,
    parse_operations,
    parse_pattern,
    sets_more_rules,
    verdict_of,
)
from trimaran.console.page import Page, PageRequest, table
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.metadata.as_json import state_as_json
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.serving.audit import why
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import PatternType, ResourceType

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

COLUMNS = ("principal", "permission", "operation", "resource", "host")


def view(question: PageRequest) -> dict[str, Any]:
    with question.cluster.client() as client:
        rows = _acls(client)
        response = None if rows is None else _explained(question, client)
    shown = table(
        question,
        rows or [],
        columns=COLUMNS,
        sort="principal",
        search=("principal", "operation", "resource"),
    )
    return {**shown, "is_guarded": rows is not None, "answer": response, **_users(question)}


def _acls(client: BlockingClient) -> list[dict[str, Any]] | None:
    """Returns the ACLs; None if no authorizer is configured: every principal may do everything."""
    try:
        return [acl_row(acl) for acl in acls_of(client, None, None)]
    except KafkaError as error:
        if error.code == ErrorCode.SECURITY_DISABLED:
            return None
        raise


def _explained(question: PageRequest, client: BlockingClient) -> dict[str, Any] | None:
    """Returns the decision for the three fields of the form; None if a field is empty."""
    who, what = question.text("principal").strip(), question.text("operation").strip()
    where = question.text("resource").strip()
    if not (who and what and where):
        return None
    pattern, operations = parse_pattern(where), parse_operations(what)
    if len(operations) != 1 or pattern.pattern_type == PatternType.PREFIXED:
        raise UserError(
            f"{what} {where} is more than one question",
            "it is about one operation on one resource, by its full name",
            "for example User:alice, read, topic/orders",
            exit_code=Exit.USAGE,
        )
    action = Action(operations[0], ResourceType(pattern.resource_type), pattern.name)
    verdict = verdict_of(acls_of(client, pattern, None), who, "", action)
    more = sets_more_rules(client) and not verdict.allowed
    return {"allowed": verdict.allowed, "by": why(verdict), "more_rules": more}


def _users(question: PageRequest) -> dict[str, Any]:
    """Returns users with passwords, and quotas, from the metadata log; None if it cannot be read."""
    if question.cluster.controllers is None:
        return {"users": None, "quotas": None}
    try:
        state = question.cluster.log.state()
    except UserError:
        return {"users": None, "quotas": None}
    told = state_as_json(replace(state, image=replace(state.image, topics=EMPTY.topics)))
    return {"users": told["scram"], "quotas": told["client_quotas"]}


PAGE = Page("/access", "Access", "access.html", view)
