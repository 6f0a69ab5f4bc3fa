"""Authorization on one node: its authorizer, and the checks that handlers use.

Source: Kafka's `AuthHelper`, `ClusterMetadataAuthorizer`. Without `authorizer.class.name` every request is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.authorizer import ANY_NAME, Action, Authorizer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.serving import audit
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.security.principal import ANONYMOUS
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

SUPER_USERS = "super.users"
# A constant for Produce and Fetch, because the lookup of an enum member takes as long as a cached verdict.
_TOPIC = ResourceType.TOPIC


class Guarded(Protocol):
    """The part of a context that authorization needs, on brokers and controllers."""

    @property
    def authorizer(self) -> Authorizer | None: ...


class Serving(Guarded, Protocol):
    """The context of handlers that both kinds of nodes share: they read the node's committed image."""

    @property
    def config(self) -> ServerConfig: ...

    @property
    def image(self) -> MetadataImage: ...


def authorizer_of(config: ServerConfig) -> Authorizer | None:
    """Returns the configured authorizer; it is a `Publisher`, which must be added to the loader.

    Raises:
        ConfigError: `super.users` has an invalid principal.
    """
    if not config["authorizer.class.name"]:
        return None
    users = [user.strip() for user in config[SUPER_USERS].split(";") if user.strip()]
    for user in users:
        if ":" not in user:
            raise ConfigError(
                SUPER_USERS,
                user,
                "a principal is written TYPE:NAME, and several are separated by semicolons",
                origin=config.origins.get(SUPER_USERS, ""),
                fix=f"write User:{user}",
            )
    return Authorizer(users, allow_if_no_acl=config["allow.everyone.if.no.acl.found"])


def may(ctx: Guarded, call: Call, action: Action, *, asked_for: bool = True) -> bool:
    """Returns whether the client may perform the action. `asked_for`: the request named the resource, so a denial
    becomes an error in the response.
    """
    if ctx.authorizer is None:
        return True
    connection = call.connection
    verdict = ctx.authorizer.judge(connection.principal, connection.peer[0], action)
    audit.note(call, action, verdict, asked_for=asked_for)
    return verdict.allowed


def may_somewhere(
    ctx: Guarded, call: Call, operation: Operation, resource_type: ResourceType
) -> bool:
    """Returns whether there may be a resource of the type on which the client may perform the operation (KIP-679)."""
    if ctx.authorizer is None:
        return True
    connection, action = call.connection, Action(operation, resource_type, ANY_NAME)
    verdict = ctx.authorizer.judge_by_type(connection.principal, connection.peer[0], action)
    audit.note(call, action, verdict)
    return verdict.allowed


def everybody(_name: str) -> bool:
    """Allows every operation; this is the rule without an authorizer."""
    return True


def may_with(
    ctx: Guarded,
    call: Call,
    operation: Operation,
    resource_type: ResourceType,
    *,
    asked_for: bool = True,
) -> Callable[[str], bool]:
    """Returns the rule whether the client may perform the operation on a resource by name. Each name is judged once."""
    if ctx.authorizer is None:
        return everybody
    judged: dict[str, bool] = {}

    def may_with_it(name: str) -> bool:
        found = judged.get(name)
        if found is None:
            action = Action(operation, resource_type, name)
            found = judged[name] = may(ctx, call, action, asked_for=asked_for)
        return found

    return may_with_it


def may_with_topic(
    ctx: Guarded,
    call: Call,
    operation: Operation,
    *,
    or_cluster: Operation | None = None,
    asked_for: bool = True,
) -> Callable[[str], bool]:
    """Returns the rule of `may_with` for topics; a principal with `or_cluster` on the cluster may use all of them."""
    if or_cluster is not None and may(ctx, call, Action(or_cluster), asked_for=False):
        return everybody
    if ctx.authorizer is None:
        return everybody
    return may_with(ctx, call, operation, _TOPIC, asked_for=asked_for)


def check_cluster(ctx: Guarded, call: Call, operation: Operation) -> None:
    """Checks the operation on the cluster, for handlers that authorize by themselves. Raises KafkaError
    CLUSTER_AUTHORIZATION_FAILED.
    """
    if not may(ctx, call, Action(operation)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{call.connection.principal} may not {operation.name} the cluster",
        )


class _AclJudge:
    """Checks the permissions that handlers declare, with the authorizer of their context."""

    def judges(self, context: Guarded) -> bool:
        return context.authorizer is not None

    def allows(
        self,
        context: Guarded,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        asked_for: bool,
    ) -> bool:
        action = Action(operation, resource_type, name)
        return may(context, call, action, asked_for=asked_for)


ACL_JUDGE = _AclJudge()


def check_tokens_allowed(
    ctx: Serving, connection: ConnectionInfo, *, forwarded: bool = False
) -> None:
    """Raises KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless a client may request delegation tokens: it must
    have authenticated, by SASL or with a certificate, but not with a token. The broker has checked the connection of a
    `forwarded` request.
    """
    principal = connection.principal
    if not principal.by_token:
        if forwarded:
            return
        protocol = ctx.config.protocol_of(connection.listener)
        if protocol.startswith("SASL") or (protocol == "SSL" and principal != ANONYMOUS):
            return
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
