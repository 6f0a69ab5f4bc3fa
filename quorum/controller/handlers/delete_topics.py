"""DeleteTopics (20): deletes topics by name or id."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.topics import delete_topics as decide
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.refusals import fail_delete_topics
from trimaran.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# The first version with THROTTLING_QUOTA_EXCEEDED.
WITH_QUOTA = 5


@handles(
    DeleteTopicsRequest,
    versions="0-6",
    access=(
        topics(Operation.DESCRIBE, "topics.name")
        .or_cluster(Operation.DELETE)
        .in_handler("also topics by id"),
        topics(Operation.DELETE, "topics.name")
        .or_cluster(Operation.DELETE)
        .in_handler("also topics by id"),
    ),
    on_error=fail_delete_topics,
    elements_max=DECISION_ELEMENTS_MAX,
)
def delete_topics(
    request: DeleteTopicsRequest, ctx: ControllerContext, call: Call
) -> Handling[DeleteTopicsResponse]:
    enabled, version = ctx.config["delete.topic.enable"], call.header.api_version

    def decided(active: ActiveController) -> Steps[Result[Message, DeleteTopicsResponse]]:
        on_cluster = Operation.DELETE
        result = yield from decide(
            request,
            active.image,
            enabled=enabled,
            version=version,
            may_see=may_with_topic(ctx, call, Operation.DESCRIBE, or_cluster=on_cluster),
            may_delete=may_with_topic(ctx, call, Operation.DELETE, or_cluster=on_cluster),
            spend=ctx.mutations.of(call, WITH_QUOTA),
        )
        result.response.throttle_time_ms = call.throttle_ms
        return result

    return ctx.controller.submit(decided)
