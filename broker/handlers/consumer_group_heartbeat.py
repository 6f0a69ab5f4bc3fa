"""ConsumerGroupHeartbeat (68): a consumer joins, stays in and leaves its group, and is told its partitions (KIP-848).

Versions: 1 subscription by a pattern, and members choose their ids (KIP-1082). Served from `group.version` 1 on; below,
the answer is UNSUPPORTED_VERSION, as Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import uuid4

from trimaran.broker.groups.consumer.groups import ConsumerHeartbeat
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.node.replicated.pending import respond
from trimaran.node.runtime.steps import pieces
from trimaran.quorum.metadata.features import GROUP_VERSION
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.text.hosts import java_text
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse, finished
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.guard import JUDGED_PER_TURN
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.events import yield_to_loop


def _fail(
    _request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        error_message=message or code.sentence,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


@handles(
    ConsumerGroupHeartbeatRequest,
    versions="0-1",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.DESCRIBE, "subscribed_topic_names").in_handler(
            "names are refused as a whole, and topics that a pattern matches are left out"
        ),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
@when_loaded(lambda request: (request.group_id,), _fail)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: Context, call: Call
) -> ConsumerGroupHeartbeatResponse | DeferredResponse[ConsumerGroupHeartbeatResponse]:
    check_served(ctx)

    may_name = may_with_topic(ctx, call, Operation.DESCRIBE)
    names = request.subscribed_topic_names or ()
    if len(names) > JUDGED_PER_TURN and ctx.authorizer is not None:
        judging = partial(_of_many, request, ctx, call, may_name)
        return DeferredResponse(judging, on_error=partial(_fail, request))
    if not all(map(may_name, names)):
        return _fail(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    return _admitted(request, ctx, call)


async def _of_many(
    request: ConsumerGroupHeartbeatRequest,
    ctx: Context,
    call: Call,
    may_name: Callable[[str], bool],
) -> ConsumerGroupHeartbeatResponse:
    """Who subscribes to many topics: they are judged some at a time."""
    for some in pieces(request.subscribed_topic_names or (), JUDGED_PER_TURN):
        if not all(map(may_name, some)):
            return _fail(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
        await yield_to_loop()
    return await finished(_admitted(request, ctx, call))


def _admitted(
    request: ConsumerGroupHeartbeatRequest, ctx: Context, call: Call
) -> ConsumerGroupHeartbeatResponse | DeferredResponse[ConsumerGroupHeartbeatResponse]:
    """A pattern that is new is looked at in a thread first."""
    regex, patterns = request.subscribed_topic_regex, ctx.groups.patterns
    if not regex or patterns.knows(regex):
        return _beat(request, ctx, call)

    async def finish() -> ConsumerGroupHeartbeatResponse:
        refused = await patterns.refusal(regex)
        return await finished(_beat(request, ctx, call, refused))

    return DeferredResponse(finish, on_error=partial(_fail, request))


def _beat(
    request: ConsumerGroupHeartbeatRequest,
    ctx: Context,
    call: Call,
    refused: KafkaError | None = None,
) -> ConsumerGroupHeartbeatResponse | DeferredResponse[ConsumerGroupHeartbeatResponse]:
    pending = ctx.groups.consumer_heartbeat(
        ConsumerHeartbeat(
            request=request,
            version=call.header.api_version,
            client_id=call.header.client_id or "",
            client_host=f"/{java_text(call.connection.peer[0])}",  # as Java prints an address
            new_id="" if request.member_id else str(uuid4()),
            may_see=may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False),
            refused=refused,
            principal=str(call.connection.principal),
        )
    )
    return respond(pending, lambda response: response, lambda code: _fail(request, code, ""))


def check_served(ctx: Context) -> None:
    """Raises KafkaError: UNSUPPORTED_VERSION: the cluster or this broker does without the consumer protocol."""
    level = ctx.metadata.image.features.levels.get(GROUP_VERSION, 0)
    if level < 1 or "consumer" not in ctx.config["group.coordinator.rebalance.protocols"]:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled."
        )
