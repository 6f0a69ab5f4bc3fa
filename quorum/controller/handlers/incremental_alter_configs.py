"""IncrementalAlterConfigs (44): changes configs of topics, brokers, groups and client metrics, and the log levels of
this controller.
"""

from __future__ import annotations

from trimaran.node.config.loggers import alter_loggers
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.configs.configs import (
    NONE,
    alter_configs,
    fail_incremental,
    incremental_response,
    resource_of,
)
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.metadata.authorizer import Action, config_refusal, config_resource
from trimaran.quorum.metadata.image import BROKER_LOGGER_RESOURCE, ConfigResource
from trimaran.quorum.serving.authorization import may
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import configs
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import CONFIGS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    IncrementalAlterConfigsRequest,
    versions="0-1",
    access=configs(Operation.ALTER_CONFIGS),
    on_error=fail_incremental,
    elements_max=CONFIGS_ELEMENTS_MAX,
)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: ControllerContext, call: Call
) -> Handling[IncrementalAlterConfigsResponse]:
    def decide(active: ActiveController) -> Steps[Result[Message, IncrementalAlterConfigsResponse]]:
        answered = yield from _answered_here(request, ctx, call)
        left = [resource for resource in request.resources if resource_of(resource) not in answered]
        wanted = request.replace(resources=left)
        result = yield from alter_configs(
            wanted,
            active.image,
            ctx.controller.rules.policies,
            forwarded=ctx.forwarded,
            server=ctx.config,
        )
        result.response.responses.extend(incremental_response(answered).responses)
        return result

    return ctx.controller.submit(decide)


def _answered_here(
    request: IncrementalAlterConfigsRequest, ctx: ControllerContext, call: Call
) -> Steps[dict[ConfigResource, KafkaError]]:
    """Handles loggers, which are not in the log, and refuses resources that the caller may not alter."""
    answered: dict[ConfigResource, KafkaError] = {}
    for resource in request.resources:
        yield 1
        key = resource_of(resource)
        if not may(ctx, call, Action(Operation.ALTER_CONFIGS, *config_resource(key))):
            answered[key] = KafkaError(config_refusal(key))
        elif resource.resource_type == BROKER_LOGGER_RESOURCE:
            try:
                only = request.validate_only
                alter_loggers(resource, ctx.config.node_id, validate_only=only)
                answered[key] = NONE
            except KafkaError as error:
                answered[key] = error
    return answered
