"""ShareGroupHeartbeat (76): a member joins, stays in or leaves a share group, and receives its partitions (KIP-932).

Served from `share.version` 1 on; below that the response is UNSUPPORTED_VERSION, as in Kafka.
`trimaran.broker.groups.share.heartbeat` decides.
"""

from __future__ import annotations

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.groups import ShareHeartbeat
from trimaran.broker.groups.share.heartbeat import check_member_id, check_request
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.handlers.subscriptions import check_subscription
from trimaran.node.replicated.pending import settled
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    _request: ShareGroupHeartbeatRequest, code: ErrorCode, message: str
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=code,
        error_message=message or code.sentence,
        member_epoch=GroupEpoch(0),
        heartbeat_interval_ms=0,
    )


@handles(
    ShareGroupHeartbeatRequest,
    versions="1",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.DESCRIBE, "subscribed_topic_names").in_handler(
            "a name without permission refuses the request"
        ),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, ctx: GroupContext, call: Call
) -> Handling[ShareGroupHeartbeatResponse]:
    if ctx.groups.runtime.is_loading:  # avoids a call, as in ConsumerGroupHeartbeat
        yield from loaded(ctx, (request.group_id,))
    check_served(ctx, share.KIND)
    check_member_id(request.member_id)
    if request.subscribed_topic_names and ctx.authorizer is not None:
        yield from check_subscription(request.subscribed_topic_names, ctx, call)
    check_request(request)
    pending = ctx.groups.member_heartbeat(
        share.KIND,
        request.group_id,
        ShareHeartbeat(
            request=request,
            client_id=call.header.client_id,
            client_host=f"/{call.connection.peer_text}",
            principal=str(call.connection.principal),
        ),
    )
    return (yield from settled(pending))
