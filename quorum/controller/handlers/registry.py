"""The APIs of a controller's listener: those of the quorum and those of the controller, as in Kafka 4.4's
`ControllerApis`.
"""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.handlers.allocate_producer_ids import allocate_producer_ids
from trimaran.quorum.controller.handlers.alter_partition import alter_partition
from trimaran.quorum.controller.handlers.assign_replicas_to_dirs import assign_replicas_to_dirs
from trimaran.quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from trimaran.quorum.controller.handlers.broker_registration import broker_registration
from trimaran.quorum.controller.handlers.controller_registration import controller_registration
from trimaran.quorum.controller.handlers.describe_cluster import describe_cluster
from trimaran.quorum.controller.handlers.envelope import envelope
from trimaran.quorum.controller.handlers.forwarded import FORWARDED_HANDLERS
from trimaran.quorum.handlers.begin_quorum_epoch import begin_quorum_epoch
from trimaran.quorum.handlers.end_quorum_epoch import end_quorum_epoch
from trimaran.quorum.handlers.fetch import fetch
from trimaran.quorum.handlers.fetch_snapshot import fetch_snapshot
from trimaran.quorum.handlers.update_raft_voter import update_raft_voter
from trimaran.quorum.handlers.vote import vote
from trimaran.quorum.serving.api_versions_features import api_versions_features
from trimaran.quorum.serving.authorization import ACL_JUDGE
from trimaran.quorum.serving.describe_acls import describe_acls
from trimaran.quorum.serving.describe_configs import describe_configs_of_controller
from trimaran.wire.transport.dispatch.registry import Registry

QUORUM_HANDLERS = (
    fetch,
    fetch_snapshot,
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    update_raft_voter,
)
CONTROLLER_HANDLERS = (
    describe_configs_of_controller,
    describe_cluster,
    alter_partition,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
    controller_registration,
    assign_replicas_to_dirs,
    describe_acls,
    envelope,
)


def controller_registry() -> Registry[ControllerContext]:
    return Registry(
        (*QUORUM_HANDLERS, *CONTROLLER_HANDLERS, *FORWARDED_HANDLERS),
        features=lambda ctx: api_versions_features(ctx.image, ctx.node.kraft_version),
        judge=ACL_JUDGE,
    )
