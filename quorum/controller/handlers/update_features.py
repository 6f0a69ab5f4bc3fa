"""UpdateFeatures (57): changes the levels of the cluster's features."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.configs.feature_updates import QuorumFeatures
from trimaran.quorum.controller.configs.feature_updates import update_features as update
from trimaran.quorum.controller.context import ControllerContext
from trimaran.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    UpdateFeaturesRequest,
    versions="0-2",
    access=cluster(Operation.ALTER),
    elements_max=FEW_ELEMENTS_MAX,
)
def update_features(
    request: UpdateFeaturesRequest, ctx: ControllerContext, call: Call
) -> Handling[UpdateFeaturesResponse]:
    version = call.header.api_version

    def decide(active: ActiveController) -> Result[Message, UpdateFeaturesResponse]:
        cluster = QuorumFeatures(
            ctx.config.node_id, list(ctx.node.voters.ids), ctx.node, active.epoch
        )
        return update(request, active.image, cluster, ctx.config, api_version=version)

    return ctx.controller.submit(decide)
