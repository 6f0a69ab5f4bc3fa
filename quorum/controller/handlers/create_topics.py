"""CreateTopics (19): creates topics, or validates the request; configs are returned only to clients that may describe
them.
"""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.topics import create_topics as decide
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.refusals import fail_create_topics
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# The first version whose response describes the new topics: about 40 configs for each topic, most of which are the same
# for all topics.
WITH_CONFIGS = 5
# The first version with THROTTLING_QUOTA_EXCEEDED.
WITH_QUOTA = 6


def _hide_configs(topic: CreatableTopicResult) -> None:
    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic.num_partitions = topic.replication_factor = -1
    topic.configs = []


@handles(
    CreateTopicsRequest,
    versions="0-7",
    access=(
        topics(Operation.CREATE, "topics.name")
        .or_cluster(Operation.CREATE)
        .in_handler("a topic named twice is refused first"),
        topics(Operation.DESCRIBE_CONFIGS).in_handler("configs in the response"),
    ),
    on_error=fail_create_topics,
    elements_max=DECISION_ELEMENTS_MAX,
)
def create_topics(
    request: CreateTopicsRequest, ctx: ControllerContext, call: Call
) -> Handling[CreateTopicsResponse]:
    rules, version = ctx.controller.rules, call.header.api_version

    def decided(active: ActiveController) -> Steps[Result[Message, CreateTopicsResponse]]:
        may_create = may_with_topic(ctx, call, Operation.CREATE, or_cluster=Operation.CREATE)
        may_see = may_with_topic(ctx, call, Operation.DESCRIBE_CONFIGS, asked_for=False)
        spend = ctx.mutations.of(call, WITH_QUOTA)
        result = yield from decide(request, active.state, rules, may_create, spend)
        result.response.throttle_time_ms = call.throttle_ms
        if version >= WITH_CONFIGS:
            for topic in result.response.topics:
                if not (topic.error_code or may_see(topic.name)):
                    _hide_configs(topic)
                topic.configs = rules.effective_configs.encoded(topic.configs or [], version)
                yield 1
        return result

    return ctx.controller.submit(decided)
