"""CreatePartitions (37): adds partitions to topics. Not done: quotas."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.topics import create_partitions as decide
from quorum.serving.authorization import may_with_topic
from quorum.serving.refusals import fail_create_partitions
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    CreatePartitionsRequest,
    versions="0-3",
    access=topics(Operation.ALTER, "topics.name").in_handler(
        "who names a topic twice is told so first"
    ),
    on_error=fail_create_partitions,
    elements_max=DECISION_ELEMENTS_MAX,
)
def create_partitions(
    request: CreatePartitionsRequest, ctx: ControllerContext, call: Call
) -> DeferredResponse[CreatePartitionsResponse]:
    controller = ctx.controller
    return controller.submit(
        lambda active: decide(
            request,
            active.image,
            controller.rules,
            may_with_topic(ctx, call, Operation.ALTER),
        ),
        partial(fail_create_partitions, request),
    )
