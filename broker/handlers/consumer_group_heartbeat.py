"""ConsumerGroupHeartbeat (68): a consumer joins, stays in or leaves its group, and receives its partitions (KIP-848).

Versions: 1 subscription by pattern, and member ids chosen by clients (KIP-1082). Served from `group.version` 1 on;
below that the response is UNSUPPORTED_VERSION, as in Kafka. `trimaran.broker.groups.consumer.heartbeat` decides.
"""

from __future__ import annotations

from functools import partial
from uuid import uuid4

from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.consumer.groups import ConsumerHeartbeat
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.handlers.subscriptions import check_subscription
from trimaran.node.replicated.pending import settled
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling


def _fail(
    _request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        error_message=message or code.sentence,
        member_epoch=GroupEpoch(0),
        heartbeat_interval_ms=0,
    )


@handles(
    ConsumerGroupHeartbeatRequest,
    versions="0-1",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.DESCRIBE, "subscribed_topic_names").in_handler(
            "a name without permission refuses the request; matches of a pattern are omitted"
        ),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: GroupContext, call: Call
) -> Handling[ConsumerGroupHeartbeatResponse]:
    if ctx.groups.runtime.is_loading:  # avoids a call: this is the most frequent request of groups
        yield from loaded(ctx, (request.group_id,))
    check_served(ctx, consumer.KIND)
    if request.subscribed_topic_names and ctx.authorizer is not None:
        yield from check_subscription(request.subscribed_topic_names, ctx, call)
    refused = None
    if request.subscribed_topic_regex:
        refused = yield from _refusal(request.subscribed_topic_regex, ctx)
    pending = ctx.groups.member_heartbeat(
        consumer.KIND,
        request.group_id,
        ConsumerHeartbeat(
            request=request,
            version=call.header.api_version,
            client_id=call.header.client_id,
            client_host=f"/{call.connection.peer_text}",
            new_id="" if request.member_id else str(uuid4()),
            may_see=may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False),
            refused=refused,
            principal=str(call.connection.principal),
        ),
    )
    return (yield from settled(pending))


def _refusal(regex: str, ctx: GroupContext) -> Handling[KafkaError | None]:
    """Returns the error for an invalid pattern; a new pattern is first compiled in a thread."""
    patterns = ctx.groups.patterns
    if patterns.knows(regex):
        return None
    refused: KafkaError | None = yield Blocking(partial(patterns.refusal, regex))
    return refused
