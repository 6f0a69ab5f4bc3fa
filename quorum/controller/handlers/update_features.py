"""UpdateFeatures (57): moves the levels of the cluster's features."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.feature_updates import Cluster
from quorum.controller.feature_updates import update_features as decide
from quorum.runtime.errors import NotLeaderError
from wire.errors import ErrorCode, KafkaError
from wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(UpdateFeaturesRequest, versions="0-2")
def update_features(
    request: UpdateFeaturesRequest, ctx: ControllerContext, call: Call
) -> Parked[UpdateFeaturesResponse]:
    reign = ctx.controller.reign()
    cluster = Cluster(ctx.config.node_id, list(ctx.node.voters.ids), ctx.node, reign.epoch)
    try:
        result = decide(
            request, reign.image, cluster, ctx.config, api_version=call.header.api_version
        )
    except NotLeaderError as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
    return ctx.controller.submit(result)
