"""FindCoordinator (10): which broker coordinates a group or a transaction; creates the topic of its kind for the first
that asks.

Versions: 1 the kind of key, 4 many keys (KIP-699), 6 share groups. Where Kafka sends the client away until the topic
exists, the answer waits for it. Not done: coordinators of share groups (INVALID_REQUEST, as Kafka's without one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.quorum.serving.authorization import may_with
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import groups, transactional_ids
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.guard import CODES
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.requests.slices import Slices

GROUP = 0
TRANSACTION = 1

MANY_KEYS_VERSION = 4


def _fail(
    request: FindCoordinatorRequest, code: ErrorCode, message: str
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys
    if not keys:
        return _respond([_nowhere(request.key, code, message)], 0)
    return _respond([_nowhere(key, code, message) for key in keys], MANY_KEYS_VERSION)


@handles(
    FindCoordinatorRequest,
    versions="0-6",
    access=(
        groups(Operation.DESCRIBE, "coordinator_keys.*").in_handler("keys of groups"),
        transactional_ids(Operation.DESCRIBE, "coordinator_keys.*").in_handler(
            "keys of transactions"
        ),
    ),
    on_error=_fail,
    slices=Slices("coordinator_keys", "coordinators"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("coordinator_keys"),
)
def find_coordinator(
    request: FindCoordinatorRequest, ctx: GroupContext, call: Call
) -> FindCoordinatorResponse | DeferredResponse[FindCoordinatorResponse]:
    version = call.header.api_version
    keys = request.coordinator_keys if version >= MANY_KEYS_VERSION else [request.key]
    kind = _KINDS.get(request.key_type)
    if kind is None:
        return _respond([_nowhere(key, ErrorCode.INVALID_REQUEST) for key in keys], version)
    listener = call.connection.listener
    may_see = may_with(ctx, call, Operation.DESCRIBE, kind.resource_type)

    def located() -> FindCoordinatorResponse:
        refused = CODES[kind.resource_type]
        found = [
            _locate(key, kind, ctx, listener) if may_see(key) else _nowhere(key, refused)
            for key in keys
        ]
        return _respond(found, version)

    if kind.topic in ctx.metadata.image.topics.by_name or not any(map(may_see, keys)):
        return located()

    async def finish() -> FindCoordinatorResponse:
        code = (await ctx.topic_creation.create([kind.topic]))[kind.topic]
        if code is ErrorCode.NONE:
            return located()
        message = f"{kind.topic} could not be created: {code.name}"
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _respond([_nowhere(key, unavailable, message) for key in keys], version)

    return DeferredResponse(finish)


class _Kind(NamedTuple):
    """A kind of coordinator: its topic, and which partition of it has a key."""

    topic: str
    resource_type: ResourceType
    partition_of: Callable[[GroupContext, str], int]


_KINDS = {
    GROUP: _Kind(
        CONSUMER_OFFSETS, ResourceType.GROUP, lambda ctx, key: ctx.groups.partition_of(key)
    ),
    TRANSACTION: _Kind(
        TRANSACTION_STATE,
        ResourceType.TRANSACTIONAL_ID,
        lambda ctx, key: ctx.transactions.partition_of(key),
    ),
}


def _locate(key: str, kind: _Kind, ctx: GroupContext, listener: str) -> Coordinator:
    """The broker that leads the key's partition, if it is alive and reached by the client's listener."""
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
        node_id=-1,
        host="",
        port=-1,
        error_code=code,
        error_message=message or code.sentence,
    )


def _respond(found: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= MANY_KEYS_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
