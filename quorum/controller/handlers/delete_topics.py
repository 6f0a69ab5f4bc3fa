"""DeleteTopics (20): deletes topics by name or id."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.topics import delete_topics as decide
from quorum.serving.refusals import fail_delete_topics
from wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    DeleteTopicsRequest,
    versions="0-6",
    access=(
        topics(Operation.DESCRIBE, "topics.name", "responses").or_cluster(Operation.DELETE),
        topics(Operation.DELETE, "topics.name", "responses").or_cluster(Operation.DELETE),
    ),
    on_error=fail_delete_topics,
    elements_max=DECISION_ELEMENTS_MAX,
)
def delete_topics(
    request: DeleteTopicsRequest, ctx: ControllerContext, call: Call
) -> DeferredResponse[DeleteTopicsResponse]:
    enabled, version = ctx.config["delete.topic.enable"], call.header.api_version
    return ctx.controller.submit(
        lambda active: decide(request, active.image, enabled=enabled, version=version),
        partial(fail_delete_topics, request),
    )
