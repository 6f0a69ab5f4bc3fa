"""The complete state of the metadata log as JSON, for users and scripts. It never contains secrets (SCRAM keys,
tokens' HMACs, sensitive configs).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from trimaran.quorum.metadata.image import (
    RESOURCE_TYPES,
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    QuotasImage,
    ScramImage,
    TopicImage,
)
from trimaran.quorum.metadata.replay import LoggedVoter, MetadataState
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.records.security import AccessControlEntryRecord, DelegationTokenRecord
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.security.sasl.scram import SCRAM_MECHANISMS
from trimaran.wire.text.as_json import HIDDEN
from trimaran.wire.text.endpoint import SECURITY_PROTOCOLS, Endpoint


def _names(kinds: type[IntEnum]) -> dict[int, str]:
    return {int(kind): kind.name for kind in kinds if kind}


ACL_RESOURCE_TYPES = _names(ResourceType)
PATTERN_TYPES = _names(PatternType)
OPERATIONS = _names(Operation)
PERMISSIONS = _names(Permission)


def name_of(names: dict[int, str], number: int) -> str:
    """Returns Kafka's name for a number; UNKNOWN(n) if only a later Kafka version has a name for it."""
    return names.get(number, f"UNKNOWN({number})")


def state_as_json(state: MetadataState) -> dict[str, Any]:
    """Returns an object for `json.dumps`: maps by name if names are unique, otherwise lists, all in a fixed order."""
    image = state.image
    return {
        "offset": image.provenance.offset,
        "epoch": image.provenance.epoch,
        "timestamp_ms": image.provenance.timestamp_ms,
        "leader_id": state.leader_id,
        "topics": {
            name: topic_as_json(topic) for name, topic in sorted(image.topics.by_name.items())
        },
        "configs": _configs(image),
        "acls": [_acl(acl) for _, acl in sorted(image.acls.items())],
        "client_quotas": _quotas(image.quotas),
        "scram": _scram(image.scram),
        "delegation_tokens": [_token(token) for _, token in sorted(image.tokens.items())],
        "features": _features(state),
        "brokers": {str(id_): _broker(b) for id_, b in sorted(image.cluster.brokers.items())},
        "controllers": {
            str(id_): _controller(c) for id_, c in sorted(image.cluster.controllers.items())
        },
        "producer_ids": {"next_producer_id": image.producer_ids.next_producer_id},
        "voters": [_voter(voter) for voter in sorted(state.voters, key=lambda v: v.id)],
        "unknown_records": _unknown(state),
    }


def _unknown(state: MetadataState) -> dict[str, Any]:
    """Returns the records that only a later Kafka version understands; the state lacks their changes."""
    unknown = state.image.unknown
    return {
        "count": unknown.count,
        "first_of_each_type": [kind._asdict() for kind in unknown.kinds],
        "control_records": state.unknown_control,
    }


def topic_as_json(topic: TopicImage) -> dict[str, Any]:
    """Returns the part of `state_as_json` for one topic."""
    return {
        "topic_id": uuid_to_text(topic.id),
        "partitions": [_partition(index, p) for index, p in sorted(topic.partitions.items())],
    }


def _partition(index: int, partition: PartitionImage) -> dict[str, Any]:
    return {
        "partition": index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "leader_recovery_state": partition.leader_recovery_state,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.elr),
        "last_known_elr": list(partition.last_known_elr),
        "adding_replicas": list(partition.adding),
        "removing_replicas": list(partition.removing),
        "directories": [uuid_to_text(directory) for directory in partition.directories],
    }


def _configs(image: MetadataImage) -> list[dict[str, Any]]:
    return [
        {
            "resource_type": name_of(RESOURCE_TYPES, resource_type),
            "resource_name": name,
            "config": {
                key: HIDDEN if is_sensitive(key, resource_type) else value
                for key, value in sorted(configs.items())
            },
        }
        for (resource_type, name), configs in sorted(image.configs.by_resource.items())
    ]


def _acl(acl: AccessControlEntryRecord) -> dict[str, Any]:
    return {
        "id": uuid_to_text(acl.id),
        "resource_type": name_of(ACL_RESOURCE_TYPES, acl.resource_type),
        "resource_name": acl.resource_name,
        "pattern_type": name_of(PATTERN_TYPES, acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": name_of(OPERATIONS, acl.operation),
        "permission_type": name_of(PERMISSIONS, acl.permission_type),
    }


def _quotas(quotas: QuotasImage) -> list[dict[str, Any]]:
    """Returns one element for each entity; the name None means the default of its type."""
    values: dict[Any, dict[str, float]] = {}
    for (entity, key), record in quotas.items():
        values.setdefault(entity, {})[key] = record.value
    return [
        {"entity": dict(entity), "values": dict(sorted(values[entity].items()))}
        for entity in sorted(values, key=repr)
    ]


def _scram(scram: ScramImage) -> dict[str, list[str]]:
    """Returns mechanism and iterations by user, never a key."""
    users: dict[str, list[str]] = {}
    for (user, mechanism), record in sorted(scram.items()):
        text = f"{name_of(SCRAM_MECHANISMS, mechanism)}:{record.iterations}"
        users.setdefault(user, []).append(text)
    return users


def _token(token: DelegationTokenRecord) -> dict[str, Any]:
    """Returns the token. Its id grants no access; the HMAC, which does, is not in the log."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp": token.issue_timestamp,
        "max_timestamp": token.max_timestamp,
        "expiration_timestamp": token.expiration_timestamp,
    }


def _features(state: MetadataState) -> dict[str, int]:
    features = state.image.features
    levels = {"metadata.version": features.metadata_version, **dict(features.levels.items())}
    if state.kraft_version:
        levels["kraft.version"] = state.kraft_version
    return dict(sorted(levels.items()))


def _broker(broker: BrokerRegistration) -> dict[str, Any]:
    return {
        "broker_epoch": broker.epoch,
        "incarnation_id": uuid_to_text(broker.incarnation_id),
        "listeners": _listeners(broker.listeners),
        "supported_features": _ranges(broker.features),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
        "directories": [uuid_to_text(directory) for directory in broker.directories],
    }


def _controller(controller: ControllerRegistration) -> dict[str, Any]:
    return {
        "incarnation_id": uuid_to_text(controller.incarnation_id),
        "zk_migration_ready": controller.zk_migration_ready,
        "listeners": _listeners(controller.listeners),
        "supported_features": _ranges(controller.features),
    }


def _listeners(listeners: Iterable[Endpoint]) -> list[dict[str, Any]]:
    return [
        {
            "name": listener.name,
            "host": listener.host,
            "port": listener.port,
            "security_protocol": name_of(SECURITY_PROTOCOLS, listener.security_protocol),
        }
        for listener in listeners
    ]


def _ranges(features: Iterable[FeatureRange]) -> dict[str, list[int]]:
    return {feature.name: [feature.min_level, feature.max_level] for feature in sorted(features)}


def _voter(voter: LoggedVoter) -> dict[str, Any]:
    return {
        "voter_id": voter.id,
        "directory_id": None
        if voter.directory_id == NIL_UUID
        else uuid_to_text(voter.directory_id),
        "endpoints": [
            {"name": name, "host": host, "port": port} for name, host, port in voter.endpoints
        ],
        "kraft_version": list(voter.kraft_versions),
    }
