"""All that a controller's listener answers: the quorum's APIs, and those of the controller, as Kafka 4.3's
`ControllerApis`.
"""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.handlers.allocate_producer_ids import allocate_producer_ids
from quorum.controller.handlers.alter_client_quotas import alter_client_quotas
from quorum.controller.handlers.alter_configs import alter_configs
from quorum.controller.handlers.alter_partition import alter_partition
from quorum.controller.handlers.alter_partition_reassignments import alter_partition_reassignments
from quorum.controller.handlers.alter_user_scram_credentials import alter_user_scram_credentials
from quorum.controller.handlers.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from quorum.controller.handlers.broker_registration import broker_registration
from quorum.controller.handlers.controller_registration import controller_registration
from quorum.controller.handlers.create_acls import create_acls
from quorum.controller.handlers.create_delegation_token import create_delegation_token
from quorum.controller.handlers.create_partitions import create_partitions
from quorum.controller.handlers.create_topics import create_topics
from quorum.controller.handlers.delete_acls import delete_acls
from quorum.controller.handlers.delete_topics import delete_topics
from quorum.controller.handlers.describe_acls import describe_acls
from quorum.controller.handlers.describe_cluster import describe_cluster
from quorum.controller.handlers.describe_configs import describe_configs
from quorum.controller.handlers.elect_leaders import elect_leaders
from quorum.controller.handlers.envelope import envelope
from quorum.controller.handlers.expire_delegation_token import expire_delegation_token
from quorum.controller.handlers.incremental_alter_configs import incremental_alter_configs
from quorum.controller.handlers.list_partition_reassignments import list_partition_reassignments
from quorum.controller.handlers.renew_delegation_token import renew_delegation_token
from quorum.controller.handlers.unregister_broker import unregister_broker
from quorum.controller.handlers.update_features import update_features
from quorum.handlers.add_raft_voter import add_raft_voter
from quorum.handlers.begin_quorum_epoch import begin_quorum_epoch
from quorum.handlers.describe_quorum import describe_quorum
from quorum.handlers.end_quorum_epoch import end_quorum_epoch
from quorum.handlers.fetch import fetch
from quorum.handlers.fetch_snapshot import fetch_snapshot
from quorum.handlers.remove_raft_voter import remove_raft_voter
from quorum.handlers.update_raft_voter import update_raft_voter
from quorum.handlers.vote import vote
from quorum.serving.api_versions_features import api_versions_features
from quorum.serving.authorization import ACL_JUDGE
from wire.transport.registry import Registry

QUORUM_HANDLERS = (
    fetch,
    fetch_snapshot,
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    describe_quorum,
    add_raft_voter,
    remove_raft_voter,
    update_raft_voter,
)
CONTROLLER_HANDLERS = (
    alter_configs,
    create_topics,
    delete_topics,
    create_partitions,
    incremental_alter_configs,
    elect_leaders,
    describe_configs,
    describe_cluster,
    alter_partition,
    broker_registration,
    broker_heartbeat,
    unregister_broker,
    alter_partition_reassignments,
    list_partition_reassignments,
    allocate_producer_ids,
    controller_registration,
    assign_replicas_to_dirs,
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    expire_delegation_token,
    renew_delegation_token,
    update_features,
    describe_acls,
    envelope,
)


def controller_registry() -> Registry[ControllerContext]:
    return Registry(
        (*QUORUM_HANDLERS, *CONTROLLER_HANDLERS),
        features=lambda ctx: api_versions_features(ctx.image, ctx.node.kraft_version),
        judge=ACL_JUDGE,
    )
