"""CreateTopics (19): creates topics, or says what would be created. Not done: create-topic policies, quotas."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from node.runtime.steps import Steps
from quorum.controller.active_controller import ActiveController
from quorum.controller.context import ControllerContext
from quorum.controller.topics import create_topics as decide
from wire.errors import ErrorCode
from wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.schema import Message
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles

# The first version that tells what was created: some 40 configs of each topic, most of them the same for all.
WITH_CONFIGS = 5


def _fail(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return CreateTopicsResponse(topics=topics)


@handles(CreateTopicsRequest, versions="0-7", on_error=_fail)
def create_topics(
    request: CreateTopicsRequest, ctx: ControllerContext, call: Call
) -> Parked[CreateTopicsResponse]:
    rules, version = ctx.controller.rules, call.header.api_version

    def decided(active: ActiveController) -> Steps[Result[Message, CreateTopicsResponse]]:
        result = yield from decide(request, active.state, rules)
        if version >= WITH_CONFIGS:
            for topic in result.response.topics:
                topic.configs = rules.effective_configs.encoded(topic.configs or [], version)
                yield 1
        return result

    return ctx.controller.submit(decided, partial(_fail, request))
