"""The permissions that a request needs: the operations and the resources. Declared beside the handler, in `@handles(…,
access=…)`.

A declaration is one `Need`, or several that must all be met. Access is denied by default: a registry accepts no handler
without a declaration. Paths locate the names in the request: `"group_id"` is a field, `"topics.name"` the field `name`
of each item of `topics`, `"groups.*"` each item of `groups` itself. Source: Kafka's `KafkaApis`, `ControllerApis`,
`AclApis`. See `trimaran.wire.transport.requests.guard` for the decision by a `Judge`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from trimaran.wire.security.acls import Operation, ResourceType

ITSELF = "*"


class JudgedBy(Enum):
    REGISTRY = auto()
    HANDLER = auto()
    CONTROLLER = auto()
    NOBODY = auto()


@dataclass(slots=True, frozen=True)
class Need:
    """The permission for one of `operations` on a resource.

    Args:
        asked: the path of the names in the request; empty for the cluster, and for resources that are only listed.
        answered: the path of the response's list for the items of `asked`; a client without the permission gets an
            error for each.
        listed: the path in the response of resources that the client did not name; those that it may not see are
            omitted.
        on_cluster: one of these operations on the cluster also suffices.
        why: the reason why no judge decides, or a judge other than that of the registry.
        asks_anyway: the handler is called even if every item is refused, so that an error of the whole request is
            returned instead.
    """

    resource_type: ResourceType
    operations: tuple[Operation, ...]
    asked: str = ""
    answered: str = ""
    listed: str = ""
    on_cluster: tuple[Operation, ...] = ()
    judged_by: JudgedBy = JudgedBy.REGISTRY
    why: str = ""
    asks_anyway: bool = False

    def with_error_of_whole(self) -> Need:
        """Returns a need in which an error of the whole request takes precedence over the refusal of its items."""
        return replace(self, asks_anyway=True)

    def or_cluster(self, *operations: Operation) -> Need:
        """Returns a need that one of `operations` on the cluster meets, too, without a decision on each resource."""
        return replace(self, on_cluster=operations)

    def in_handler(self, why: str) -> Need:
        """Declares that the handler calls the authorizer itself."""
        return replace(self, judged_by=JudgedBy.HANDLER, why=why)


Access = Need | tuple[Need, ...]


def cluster(*operations: Operation) -> Need:
    """Requires one of the operations on the cluster; otherwise the whole request is refused."""
    return Need(ResourceType.CLUSTER, operations)


def topics(operation: Operation, asked: str = "", answered: str = "", *, listed: str = "") -> Need:
    return Need(ResourceType.TOPIC, (operation,), asked, answered, listed)


def groups(operation: Operation, asked: str = "", answered: str = "", *, listed: str = "") -> Need:
    return Need(ResourceType.GROUP, (operation,), asked, answered, listed)


def transactional_ids(
    operation: Operation, asked: str = "", answered: str = "", *, listed: str = ""
) -> Need:
    """Requires the operation on the transactional id; a null id needs no permission."""
    return Need(ResourceType.TRANSACTIONAL_ID, (operation,), asked, answered, listed)


def configs(operation: Operation) -> tuple[Need, ...]:
    """Requires the operation on each topic or group whose configs are named, and on the cluster for the configs of
    brokers.
    """
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    why = "depends on the resource of each config"
    return tuple(Need(kind, (operation,), "resources").in_handler(why) for kind in kinds)


def tokens(operation: Operation) -> Need:
    return Need(ResourceType.DELEGATION_TOKEN, (operation,)).in_handler("each token is checked")


def users(operation: Operation) -> Need:
    return Need(ResourceType.USER, (operation,)).in_handler("owners need nothing")


def open_to_all(why: str) -> Need:
    """Declares that every connected client may send the request."""
    return Need(ResourceType.UNKNOWN, (), judged_by=JudgedBy.NOBODY, why=why)


# Brokers forward the request in an Envelope, with the client's principal.
BY_CONTROLLER = Need(
    ResourceType.UNKNOWN,
    (),
    judged_by=JudgedBy.CONTROLLER,
    why="forwarded with the client's principal",
)


def needs_of(access: Access | None) -> tuple[Need, ...]:
    """Returns the needs of a declaration; empty if it declares none."""
    return (access,) if isinstance(access, Need) else tuple(access or ())
