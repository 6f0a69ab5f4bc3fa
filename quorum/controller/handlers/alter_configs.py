"""AlterConfigs (33): replaces all configs of resources, as clients did before IncrementalAlterConfigs."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.configs.configs import (
    fail_legacy,
    legacy_response,
    replace_configs,
    resource_of,
)
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.metadata.authorizer import Action, config_refusal, config_resource
from trimaran.quorum.serving.authorization import may
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import configs
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import CONFIGS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AlterConfigsRequest,
    versions="0-2",
    access=configs(Operation.ALTER_CONFIGS),
    on_error=fail_legacy,
    elements_max=CONFIGS_ELEMENTS_MAX,
)
def alter_configs(
    request: AlterConfigsRequest, ctx: ControllerContext, call: Call
) -> Handling[AlterConfigsResponse]:
    def decide(active: ActiveController) -> Steps[Result[Message, AlterConfigsResponse]]:
        refused = {}
        for key in map(resource_of, request.resources):
            yield 1
            action = Action(Operation.ALTER_CONFIGS, *config_resource(key))
            if not may(ctx, call, action):
                refused[key] = KafkaError(config_refusal(key))
        left = [resource for resource in request.resources if resource_of(resource) not in refused]
        wanted = request.replace(resources=left)
        result = yield from replace_configs(
            wanted,
            active.image,
            ctx.controller.rules.policies,
            forwarded=ctx.forwarded,
            server=ctx.config,
        )
        result.response.responses.extend(legacy_response(refused).responses)
        return result

    return ctx.controller.submit(decide)
