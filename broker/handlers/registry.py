"""All handlers of a broker; the supported versions in ApiVersions are computed from this list."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from trimaran.broker.handlers.add_offsets_to_txn import add_offsets_to_txn
from trimaran.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from trimaran.broker.handlers.alter_configs import alter_configs
from trimaran.broker.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from trimaran.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from trimaran.broker.handlers.consumer_group_describe import consumer_group_describe
from trimaran.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from trimaran.broker.handlers.context import (
    AdminContext,
    Contexts,
    DataContext,
    DirectoryContext,
    GroupContext,
    ShareContext,
    SharingContext,
    TransactionContext,
)
from trimaran.broker.handlers.create_delegation_token import create_delegation_token
from trimaran.broker.handlers.delete_groups import delete_groups
from trimaran.broker.handlers.delete_records import delete_records
from trimaran.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from trimaran.broker.handlers.delete_share_group_state import delete_share_group_state
from trimaran.broker.handlers.describe_client_quotas import describe_client_quotas
from trimaran.broker.handlers.describe_cluster import describe_cluster
from trimaran.broker.handlers.describe_delegation_token import describe_delegation_token
from trimaran.broker.handlers.describe_groups import describe_groups
from trimaran.broker.handlers.describe_log_dirs import describe_log_dirs
from trimaran.broker.handlers.describe_producers import describe_producers
from trimaran.broker.handlers.describe_share_group_offsets import describe_share_group_offsets
from trimaran.broker.handlers.describe_topic_partitions import describe_topic_partitions
from trimaran.broker.handlers.describe_transactions import describe_transactions
from trimaran.broker.handlers.describe_user_scram_credentials import describe_user_scram_credentials
from trimaran.broker.handlers.end_txn import end_txn
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.find_coordinator import find_coordinator
from trimaran.broker.handlers.forwarded import passed_on
from trimaran.broker.handlers.get_telemetry_subscriptions import get_telemetry_subscriptions
from trimaran.broker.handlers.heartbeat import heartbeat
from trimaran.broker.handlers.incremental_alter_configs import incremental_alter_configs
from trimaran.broker.handlers.init_producer_id import init_producer_id
from trimaran.broker.handlers.initialize_share_group_state import initialize_share_group_state
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.leave_group import leave_group
from trimaran.broker.handlers.list_config_resources import list_config_resources
from trimaran.broker.handlers.list_groups import list_groups
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.list_transactions import list_transactions
from trimaran.broker.handlers.metadata import metadata
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_delete import offset_delete
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.broker.handlers.produce import produce
from trimaran.broker.handlers.push_telemetry import push_telemetry
from trimaran.broker.handlers.read_share_group_state import read_share_group_state
from trimaran.broker.handlers.read_share_group_state_summary import read_share_group_state_summary
from trimaran.broker.handlers.share_acknowledge import share_acknowledge
from trimaran.broker.handlers.share_fetch import share_fetch
from trimaran.broker.handlers.share_group_describe import share_group_describe
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.broker.handlers.streams_group_describe import streams_group_describe
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.broker.handlers.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from trimaran.broker.handlers.sync_group import sync_group
from trimaran.broker.handlers.txn_offset_commit import txn_offset_commit
from trimaran.broker.handlers.write_share_group_state import write_share_group_state
from trimaran.broker.handlers.write_txn_markers import write_txn_markers
from trimaran.quorum.controller.handlers.forwarded import FORWARDED_HANDLERS
from trimaran.quorum.serving.api_versions_features import api_versions_features
from trimaran.quorum.serving.authorization import ACL_JUDGE
from trimaran.quorum.serving.describe_acls import describe_acls
from trimaran.quorum.serving.describe_configs import describe_configs
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest
from trimaran.wire.schema import Message
from trimaran.wire.transport.dispatch.api_versions import Features, NodeIdentity
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import declaration_of
from trimaran.wire.transport.requests.hooks import Hooks

C = TypeVar("C")
_Handlers: TypeAlias = tuple[Callable[[Any, C, Call], Any], ...]

# A row binds the handlers of a family to its context: a handler that declares another context is a type error.
DATA: _Handlers[DataContext] = (
    produce,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    delete_records,
    describe_producers,
)
SHARING: _Handlers[SharingContext] = (
    share_acknowledge,
    share_fetch,
)
GROUPS: _Handlers[GroupContext] = (
    consumer_group_describe,
    consumer_group_heartbeat,
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
TRANSACTIONS: _Handlers[TransactionContext] = (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
SHARES: _Handlers[ShareContext] = (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
DIRECTORIES: _Handlers[DirectoryContext] = (
    alter_replica_log_dirs,
    describe_log_dirs,
)
ADMINISTRATION: _Handlers[AdminContext] = (
    alter_configs,
    create_delegation_token,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_topic_partitions,
    describe_user_scram_credentials,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    list_config_resources,
    metadata,
    push_telemetry,
)
# The rows by the name of their context in `Contexts`.
FAMILIES: dict[str, tuple[Callable[..., Any], ...]] = {
    "data": DATA,
    "sharing": SHARING,
    "groups": GROUPS,
    "transactions": TRANSACTIONS,
    "shares": SHARES,
    "directories": DIRECTORIES,
    "administration": ADMINISTRATION,
}
_OWN_REQUESTS = {
    declaration_of(handler).request for handlers in FAMILIES.values() for handler in handlers
}
PASSED_ON = [
    handler
    for handler in FORWARDED_HANDLERS
    if declaration_of(handler).request not in _OWN_REQUESTS
]
FAMILIES["administration"] += tuple(map(passed_on, PASSED_ON))
CONTEXT_OF: dict[Callable[..., Any], Callable[[Contexts], Any]] = {
    handler: attrgetter(family) for family, handlers in FAMILIES.items() for handler in handlers
}
HANDLERS = tuple(CONTEXT_OF)


# Without ZooKeeper these versions are not advertised, and are answered with UNSUPPORTED_VERSION, which old clients
# understand.
_OF_ZOOKEEPER: dict[type[Message], Versions] = {
    OffsetCommitRequest: Versions(0, 0),
    OffsetFetchRequest: Versions(0, 0),
}


# Served only if client metrics are collected; Kafka serves them only with a plug-in for client metrics.
_OF_TELEMETRY = (get_telemetry_subscriptions, push_telemetry)


def broker_registry(
    *,
    zookeeper_offsets: bool = False,
    client_metrics: bool = True,
    hooks: Hooks | None = None,
) -> Registry[Contexts]:
    """Returns the APIs that a broker's listeners serve."""
    handlers = HANDLERS
    if not client_metrics:
        handlers = tuple(handler for handler in HANDLERS if handler not in _OF_TELEMETRY)
    return Registry(
        handlers,
        context_of=CONTEXT_OF,
        unadvertised={} if zookeeper_offsets else _OF_ZOOKEEPER,
        features=lambda contexts: _features(contexts.administration),
        identity=lambda contexts: _identity(contexts.administration),
        judge=ACL_JUDGE,
        hooks=hooks,
    )


def _features(ctx: AdminContext) -> Features:
    return api_versions_features(ctx.image, ctx.kraft_version())


def _identity(ctx: AdminContext) -> NodeIdentity:
    return NodeIdentity(ctx.cluster_id, ctx.node_id)
