"""CreateTopics (19): creates topics, or says what would be created. Not done: create-topic policies, quotas."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from node.runtime.steps import Steps
from quorum.controller.active_controller import ActiveController
from quorum.controller.context import ControllerContext
from quorum.controller.topics import create_topics as decide
from quorum.serving.refusals import fail_create_topics
from wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.schema import Message
from wire.security.acls import Operation
from wire.transport.access import topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles

# The first version that tells what was created: some 40 configs of each topic, most of them the same for all.
WITH_CONFIGS = 5


@handles(
    CreateTopicsRequest,
    versions="0-7",
    access=(
        topics(Operation.CREATE, "topics.name", "topics").or_cluster(Operation.CREATE),
        topics(Operation.DESCRIBE_CONFIGS).in_handler("configs in the answer"),
    ),
    on_error=fail_create_topics,
    elements_max=DECISION_ELEMENTS_MAX,
)
def create_topics(
    request: CreateTopicsRequest, ctx: ControllerContext, call: Call
) -> DeferredResponse[CreateTopicsResponse]:
    rules, version = ctx.controller.rules, call.header.api_version

    def decided(active: ActiveController) -> Steps[Result[Message, CreateTopicsResponse]]:
        result = yield from decide(request, active.state, rules)
        if version >= WITH_CONFIGS:
            for topic in result.response.topics:
                topic.configs = rules.effective_configs.encoded(topic.configs or [], version)
                yield 1
        return result

    return ctx.controller.submit(decided, partial(fail_create_topics, request))
