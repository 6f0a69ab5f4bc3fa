"""CreatePartitions (37): adds partitions to topics."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.topics import create_partitions as decide
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.refusals import fail_create_partitions
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# The first version with THROTTLING_QUOTA_EXCEEDED.
WITH_QUOTA = 3


@handles(
    CreatePartitionsRequest,
    versions="0-3",
    access=topics(Operation.ALTER, "topics.name").in_handler(
        "a topic named twice is refused first"
    ),
    on_error=fail_create_partitions,
    elements_max=DECISION_ELEMENTS_MAX,
)
def create_partitions(
    request: CreatePartitionsRequest, ctx: ControllerContext, call: Call
) -> Handling[CreatePartitionsResponse]:
    def decided(active: ActiveController) -> Steps[Result[Message, CreatePartitionsResponse]]:
        may_alter = may_with_topic(ctx, call, Operation.ALTER)
        spend = ctx.mutations.of(call, WITH_QUOTA)
        result = yield from decide(request, active.image, ctx.controller.rules, may_alter, spend)
        result.response.throttle_time_ms = call.throttle_ms
        return result

    return ctx.controller.submit(decided)
