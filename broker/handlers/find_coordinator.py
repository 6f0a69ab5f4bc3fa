"""FindCoordinator (10): finds the broker that coordinates a group, a transaction or a share partition; the first
request creates the internal topic.

Versions: 1 the type of the key, 4 many keys (KIP-699), 6 share partitions (KIP-932). The response waits until the topic
exists; Kafka makes the client retry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from trimaran.broker.share_state.keys import key_from_text
from trimaran.quorum.serving.authorization import check_cluster, may_with
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import cluster, groups, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.guard import CODES
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling, Wait

GROUP = 0
TRANSACTION = 1
SHARE_PARTITION = 2

MANY_KEYS_VERSION = 4
SHARE_VERSION = 6


def _fail(
    request: FindCoordinatorRequest, code: ErrorCode, message: str
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys
    found = [_nowhere(key, code, message) for key in keys or [request.key]]
    return _respond(found, has_many=bool(keys))


@handles(
    FindCoordinatorRequest,
    versions="0-6",
    access=(
        groups(Operation.DESCRIBE, "coordinator_keys.*").in_handler("keys of groups"),
        transactional_ids(Operation.DESCRIBE, "coordinator_keys.*").in_handler(
            "keys of transactions"
        ),
        cluster(Operation.CLUSTER_ACTION).in_handler("keys of share partitions"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("coordinator_keys"),
)
def find_coordinator(
    request: FindCoordinatorRequest, ctx: GroupContext, call: Call
) -> Handling[FindCoordinatorResponse]:
    version = call.header.api_version
    has_many = version >= MANY_KEYS_VERSION
    keys = request.coordinator_keys if has_many else [request.key]
    kind = _KINDS.get(request.key_type)
    found: list[Coordinator] = []
    is_share = request.key_type == SHARE_PARTITION
    if kind is None or (is_share and version < SHARE_VERSION):
        for key in keys:
            found.append(_nowhere(key, ErrorCode.INVALID_REQUEST))
            yield None
        return _respond(found, has_many=has_many)
    may_see: Callable[[str], bool]
    if is_share:
        if keys:
            check_cluster(ctx, call, Operation.CLUSTER_ACTION)
        may_see = _is_share_partition
    else:
        may_see = may_with(ctx, call, Operation.DESCRIBE, kind.resource_type)
    seen: list[bool] = []
    for key in keys:
        seen.append(may_see(key))
        yield None
    missing = (yield from _created(kind.topic, ctx)) if any(seen) else ""
    for key, is_seen in zip(keys, seen, strict=True):
        if missing:
            found.append(_nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, missing))
        elif is_seen:
            found.append(_locate(key, kind, ctx, call.connection.listener))
        else:
            found.append(_nowhere(key, kind.refusal))
        yield None
    return _respond(found, has_many=has_many)


def _created(topic: str, ctx: GroupContext) -> Handling[str]:
    """Creates the internal topic if it is missing. Returns the reason for a failure, or an empty text."""
    if topic in ctx.metadata.image.topics.by_name:
        return ""
    code = (yield Wait(partial(ctx.topic_creation.create, [topic])))[topic]
    return "" if code is ErrorCode.NONE else f"{topic} could not be created: {code.name}"


def _is_share_partition(key: str) -> bool:
    try:
        key_from_text(key)
    except ValueError:
        return False
    return True


class _Kind(NamedTuple):
    """A kind of coordinator: its topic, the resource type of its keys, the code of keys that are refused, and a
    function from a key to its partition.
    """

    topic: str
    resource_type: ResourceType
    refusal: ErrorCode
    partition_of: Callable[[GroupContext, str], int]


_KINDS = {
    GROUP: _Kind(
        CONSUMER_OFFSETS,
        ResourceType.GROUP,
        CODES[ResourceType.GROUP],
        lambda ctx, key: ctx.groups.partition_of(key),
    ),
    TRANSACTION: _Kind(
        TRANSACTION_STATE,
        ResourceType.TRANSACTIONAL_ID,
        CODES[ResourceType.TRANSACTIONAL_ID],
        lambda ctx, key: ctx.transactions.partition_of(key),
    ),
    SHARE_PARTITION: _Kind(
        SHARE_GROUP_STATE,
        ResourceType.CLUSTER,
        ErrorCode.INVALID_REQUEST,
        lambda ctx, key: ctx.shares.partition_of(key_from_text(key)),
    ),
}


def _locate(key: str, kind: _Kind, ctx: GroupContext, listener: str) -> Coordinator:
    """Returns the broker that leads the key's partition, if it is alive and has the client's listener."""
    if kind.topic == TRANSACTION_STATE and not key:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    image = ctx.metadata.image
    leader = image.topics.by_name[kind.topic].partitions[kind.partition_of(ctx, key)].leader
    broker = image.cluster.brokers.get(leader)
    endpoint = None if broker is None or broker.fenced else endpoint_of(broker, listener)
    if endpoint is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _nowhere(key: str, code: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(
        key=key,
        node_id=BrokerId(-1),
        host="",
        port=-1,
        error_code=code,
        error_message=message or code.sentence,
    )


def _respond(found: list[Coordinator], *, has_many: bool) -> FindCoordinatorResponse:
    if has_many:
        return FindCoordinatorResponse(coordinators=found)
    coordinator = found[0]
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )
