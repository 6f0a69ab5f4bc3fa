"""AlterConfigs (33): replaces all configs of resources, as clients did before IncrementalAlterConfigs."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from quorum.controller.active_controller import ActiveController
from quorum.controller.configs import fail_legacy, legacy_response, replace_configs, resource_of
from quorum.controller.context import ControllerContext
from quorum.metadata.acls import Operation
from quorum.metadata.authorizer import Action, config_resource
from quorum.serving.authorization import may
from wire.errors import ErrorCode, KafkaError
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from wire.schema import Message
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AlterConfigsRequest, versions="0-2", on_error=fail_legacy)
def alter_configs(
    request: AlterConfigsRequest, ctx: ControllerContext, call: Call
) -> Parked[AlterConfigsResponse]:
    refused = {
        key: KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        for key in map(resource_of, request.resources)
        if not may(ctx, call.connection, Action(Operation.ALTER_CONFIGS, *config_resource(key)))
    }
    left = [one for one in request.resources if resource_of(one) not in refused]

    def decide(active: ActiveController) -> Result[Message, AlterConfigsResponse]:
        wanted = request.replace(resources=left)
        result = replace_configs(wanted, active.image, forwarded=ctx.forwarded)
        result.response.responses.extend(legacy_response(refused).responses)
        return result

    return ctx.controller.submit(decide, partial(fail_legacy, request))
