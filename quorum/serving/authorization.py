"""What the configuration says of access: the authorizer of a node, and the check of what concerns the whole cluster.

Source: Kafka's `AuthHelper`, `ClusterMetadataAuthorizer`. Without `authorizer.class.name` everybody may do everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from node.config.config_def import ConfigError
from node.config.server import ServerConfig
from quorum.metadata.authorizer import Action, Authorizer
from quorum.serving.enforced import ENFORCED
from wire.errors import ErrorCode, KafkaError
from wire.security.acls import Operation, ResourceType
from wire.security.principal import ANONYMOUS
from wire.transport.access import Need
from wire.transport.calls import Call, ConnectionInfo

log = logging.getLogger(__name__)

SUPER_USERS = "super.users"
OPEN_DATA = "trimaran.authorizer.topics.and.groups.open"


class Guarded(Protocol):
    """What broker and controller have in their contexts."""

    @property
    def config(self) -> ServerConfig: ...

    @property
    def authorizer(self) -> Authorizer | None: ...


def authorizer_of(config: ServerConfig) -> Authorizer | None:
    """The authorizer that the configuration asks for; a `Publisher` that the loader must be given.

    Raises:
        ConfigError: `super.users` are no principals, or nobody admitted that topics and groups stay open.
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
    if not config[OPEN_DATA]:
        raise ConfigError(
            "authorizer.class.name",
            config["authorizer.class.name"],
            "ACLs do not protect topics, groups and transactions yet: anyone who can connect can produce, fetch and "
            "commit",
            origin=config.origins.get("authorizer.class.name", ""),
            fix=f"leave it out, or set {OPEN_DATA}=true to have ACLs for administration only",
        )
    log.warning(
        "authorizer.class.name is set: ACLs authorize requests between nodes and the administration of cluster, "
        "configs and tokens; "
        "topics, groups and transactions are not protected by them yet: anyone who can connect can produce, fetch and "
        "commit"
    )
    return Authorizer(users, allow_if_no_acl=config["allow.everyone.if.no.acl.found"])


def may(ctx: Guarded, connection: ConnectionInfo, action: Action) -> bool:
    """Whether who is connected may do it."""
    return ctx.authorizer is None or ctx.authorizer.allows(
        str(connection.principal), connection.peer[0], action
    )


def may_with_topic(
    ctx: Guarded, connection: ConnectionInfo, operation: Operation
) -> Callable[[str], bool]:
    """For handlers that ask themselves: whether who is connected may do it with a topic.

    Until it is `ENFORCED` all may: nobody could be given an ACL for it.
    """
    if ctx.authorizer is None or operation not in ENFORCED[ResourceType.TOPIC]:
        return lambda _name: True
    return lambda name: may(ctx, connection, Action(operation, ResourceType.TOPIC, name))


def check_cluster(ctx: Guarded, call: Call, operation: Operation) -> None:
    """For handlers that ask themselves. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
    if not may(ctx, call.connection, Action(operation)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{call.connection.principal} may not {operation.name} the cluster",
        )


class _AclJudge:
    """Holds what handlers declare against the authorizer of their context.

    What is not `ENFORCED` is declared, listed in `docs/access.md`, and open.
    """

    def enforces(self, need: Need) -> bool:
        return ENFORCED.get(need.resource_type, frozenset()).issuperset(need.operations)

    def allows(
        self,
        context: Guarded,
        connection: ConnectionInfo,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        return may(context, connection, Action(operation, resource_type, name))


ACL_JUDGE = _AclJudge()


def may_ask_for_tokens(
    ctx: Guarded, connection: ConnectionInfo, *, forwarded: bool = False
) -> bool:
    """A delegation token is for authenticated users: nobody on plain text, nobody without a certificate, and nobody
    who came with a token. Of what is `forwarded` a broker has seen how the client came.
    """
    if connection.principal.by_token or forwarded:
        return not connection.principal.by_token
    protocol = ctx.config.protocol_of(connection.listener)
    return protocol.startswith("SASL") or (protocol == "SSL" and connection.principal != ANONYMOUS)
