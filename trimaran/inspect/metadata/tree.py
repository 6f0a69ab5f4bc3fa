"""The state of the metadata log as a tree of names, with the paths of Apache Kafka's metadata shell.

    /image/topics/byName/orders/0        a file: the text of a partition
    /image/cluster/brokers               a directory

Directories create their children on demand, so reading a path costs only what is on it. Source: the nodes of Kafka's
`image.node` package; the files have the same texts; secrets are shown as [redacted]. Not implemented: /local, which
describes the shell itself.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from trimaran.quorum.metadata.as_json import (
    ACL_RESOURCE_TYPES,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    name_of,
)
from trimaran.quorum.metadata.image import (
    RESOURCE_TYPES,
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    TopicImage,
)
from trimaran.quorum.metadata.versions import release_name
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.records.security import AccessControlEntryRecord, DelegationTokenRecord
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.security.sasl.scram import SCRAM_MECHANISMS
from trimaran.wire.text.endpoint import SECURITY_PROTOCOLS, Endpoint

REDACTED = "[redacted]"
SHORT_MAX = 0x7FFF
RECOVERY_STATES = {0: "RECOVERED", 1: "RECOVERING"}


@dataclass(frozen=True, slots=True)
class Directory:
    """Children by name, each created on demand."""

    children: dict[str, Callable[[], Node]]


Node: TypeAlias = "str | Directory"


def _directory(items: Iterable[tuple[str, Callable[[], Node]]]) -> Directory:
    return Directory(dict(items))


def image_tree(image: MetadataImage) -> Directory:
    """Returns the root, with `image` in it."""
    parts: dict[str, Callable[[], Node]] = {
        "acls": lambda: Directory({"byId": lambda: _texts(image.acls, uuid_to_text, _acl)}),
        "clientQuotas": lambda: _quotas(image),
        "cluster": lambda: Directory(
            {
                "brokers": lambda: _texts(image.cluster.brokers, str, _broker),
                "controllers": lambda: _texts(image.cluster.controllers, str, _controller),
            }
        ),
        "configs": lambda: _configs(image),
        "delegationToken": lambda: _texts(image.tokens, str, _token),
        "features": lambda: _features(image),
        "producerIds": lambda: Directory(
            {"nextProducerId": lambda: str(image.producer_ids.next_producer_id)}
        ),
        "provenance": lambda: _provenance(image),
        "scram": lambda: _scram(image),
        "topics": lambda: Directory(
            {
                "byName": lambda: _directories(image.topics.by_name, str, _topic),
                "byId": lambda: _directories(image.topics.by_id, uuid_to_text, _topic),
            }
        ),
    }
    return Directory({"image": lambda: Directory(parts)})


def _texts(items: Any, name: Callable[[Any], str], text: Callable[[Any], str]) -> Directory:
    return _directory((name(key), lambda value=value: text(value)) for key, value in items.items())  # type: ignore[misc]


def _directories(
    items: Any, name: Callable[[Any], str], node: Callable[[Any], Directory]
) -> Directory:
    return _directory((name(key), lambda value=value: node(value)) for key, value in items.items())  # type: ignore[misc]


# --- looking things up


def lookup(root: Directory, pattern: str) -> list[tuple[str, Node]]:
    """Returns (path, node) of all matches; each component may contain `*`, `?` and `[…]`."""
    found: list[tuple[str, Node]] = [("", root)]
    for component in (part for part in pattern.split("/") if part):
        found = [
            (f"{path}/{name}", node.children[name]())
            for path, node in found
            if isinstance(node, Directory)
            for name in _matching(node, component)
        ]
    return [(path or "/", node) for path, node in found]


def _matching(directory: Directory, component: str) -> list[str]:
    if component in directory.children:
        return [component]
    return sorted(name for name in directory.children if fnmatch.fnmatchcase(name, component))


def walk(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Yields the node and everything below it, in the order of names."""
    yield path, node
    if isinstance(node, Directory):
        for name in sorted(node.children):
            yield from walk(f"{path.rstrip('/')}/{name}", node.children[name]())


# --- the nodes


def _topic(topic: TopicImage) -> Directory:
    children: dict[str, Callable[[], Node]] = {
        "name": lambda: topic.name,
        "id": lambda: uuid_to_text(topic.id),
    }
    for index, partition in topic.partitions.items():
        children[str(index)] = lambda partition=partition: _partition(partition)  # type: ignore[misc]
    return Directory(children)


def _java_list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _partition(partition: PartitionImage) -> str:
    state = partition.leader_recovery_state
    return (
        f"PartitionRegistration(replicas={_java_list(partition.replicas)}, "
        f"directories={_java_list(map(uuid_to_text, partition.directories))}, "
        f"isr={_java_list(partition.isr)}, "
        f"removingReplicas={_java_list(partition.removing)}, "
        f"addingReplicas={_java_list(partition.adding)}, "
        f"elr={_java_list(partition.elr)}, "
        f"lastKnownElr={_java_list(partition.last_known_elr)}, "
        f"leader={partition.leader}, "
        f"leaderRecoveryState={name_of(RECOVERY_STATES, state)}, "
        f"leaderEpoch={partition.leader_epoch}, partitionEpoch={partition.partition_epoch})"
    )


def _broker(broker: BrokerRegistration) -> str:
    cordoned = "null"
    if broker.cordoned_directories is not None:
        cordoned = _java_list(map(uuid_to_text, broker.cordoned_directories))
    return (
        f"BrokerRegistration(id={broker.id}, epoch={broker.epoch}, "
        f"incarnationId={uuid_to_text(broker.incarnation_id)}, "
        f"listeners={_listeners(broker.listeners)}, supportedFeatures={_features_of(broker.features)}, "
        f"rack={'Optional.empty' if broker.rack is None else f'Optional[{broker.rack}]'}, "
        f"fenced={_java(broker.fenced)}, inControlledShutdown={_java(broker.in_controlled_shutdown)}, "
        f"isMigratingZkBroker={_java(broker.is_migrating_zk_broker)}, "
        f"directories={_java_list(map(uuid_to_text, broker.directories))}, "
        f"cordonedDirectories={cordoned})"
    )


def _controller(controller: ControllerRegistration) -> str:
    return (
        f"ControllerRegistration(id={controller.id}, "
        f"incarnationId={uuid_to_text(controller.incarnation_id)}, "
        f"zkMigrationReady={_java(controller.zk_migration_ready)}, "
        f"listeners={_listeners(controller.listeners)}, "
        f"supportedFeatures={_features_of(controller.features)})"
    )


def _java(value: bool) -> str:
    return str(value).lower()


def _listeners(listeners: Iterable[Endpoint]) -> str:
    return _java_list(
        f"Endpoint(listenerName='{listener.name}', "
        f"securityProtocol={name_of(SECURITY_PROTOCOLS, listener.security_protocol)}, "
        f"host='{listener.host}', port={listener.port})"
        for listener in sorted(listeners)
    )


def _features_of(features: Iterable[FeatureRange]) -> str:
    return (
        "{"
        + ", ".join(
            f"{feature.name}: {_range(feature.min_level, feature.max_level)}"
            for feature in sorted(features)
        )
        + "}"
    )


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}+" if high == SHORT_MAX else f"{low}-{high}"


def _configs(image: MetadataImage) -> Directory:
    return _directory(
        (
            name_of(RESOURCE_TYPES, kind) + (f":{name}" if name else ""),
            lambda kind=kind, values=values: _config_values(kind, values),  # type: ignore[misc]
        )
        for (kind, name), values in image.configs.by_resource.items()
    )


def _config_values(kind: int, values: Any) -> Directory:
    return _directory(
        (key, lambda key=key, value=value: REDACTED if is_sensitive(key, kind) else value)  # type: ignore[misc]
        for key, value in values.items()
    )


def _features(image: MetadataImage) -> Directory:
    level = image.features.metadata_version
    files: dict[str, Callable[[], Node]] = {
        "metadataVersion": lambda: f"Optional[{release_name(level)}]" if level else "Optional.empty"
    }
    for name, value in image.features.levels.items():
        files[f"finalized_{name}"] = lambda value=value: str(value)  # type: ignore[misc]
    return Directory(files)


def _provenance(image: MetadataImage) -> str:
    offset, epoch, timestamp_ms = image.provenance
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    when = dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None).isoformat()
    fraction = f".{milliseconds:03d}".rstrip("0") if milliseconds else ""
    return f"offset {offset}, epoch {epoch}, time {when}{fraction}Z[UTC]"


def _scram(image: MetadataImage) -> Directory:
    def users(mechanism: int) -> Directory:
        hidden = ", ".join(
            f"{name}={REDACTED}" for name in ("salt", "storedKey", "serverKey", "iterations")
        )
        return _directory(
            (user, lambda: f"ScramCredentialData({hidden})")
            for user, kind in image.scram
            if kind == mechanism
        )

    return _directory(
        (name, lambda number=number: users(number))  # type: ignore[misc]
        for number, name in SCRAM_MECHANISMS.items()
    )


def _acl(acl: AccessControlEntryRecord) -> str:
    return (
        f"StandardAcl[resourceType={name_of(ACL_RESOURCE_TYPES, acl.resource_type)}, "
        f"resourceName={acl.resource_name}, patternType={name_of(PATTERN_TYPES, acl.pattern_type)}, "
        f"principal={acl.principal}, host={acl.host}, "
        f"operation={name_of(OPERATIONS, acl.operation)}, "
        f"permissionType={name_of(PERMISSIONS, acl.permission_type)}]"
    )


def _token(_token: DelegationTokenRecord) -> str:
    return (
        f"DelegationTokenData(tokenId={REDACTED}, owner={REDACTED}, tokenRequester={REDACTED}, "
        f"renewers={REDACTED}, issueTimestamp={REDACTED}, maxTimestamp={REDACTED}, "
        f"expiryTimestamp={REDACTED})"
    )


def _quotas(image: MetadataImage) -> Directory:
    entities: dict[QuotaEntity, dict[str, float]] = {}
    for (entity, key), record in image.quotas.items():
        entities.setdefault(entity, {})[key] = record.value
    return _directory(
        (_entity(entity), lambda values=values: _texts(values, str, str))  # type: ignore[misc]
        for entity, values in entities.items()
    )


_ENTITY_WORDS = {"client-id": "clientId", "ip": "ip", "user": "user"}


def _entity(entity: QuotaEntity) -> str:
    """Returns the name of an entity: clientId(…)_ip(…)_user(…) with the existing parts; the default of a type has no
    name in it.
    """
    names = dict(entity)
    return "_".join(
        f"{word}({_escape(names[kind] or '')})"
        for kind, word in _ENTITY_WORDS.items()
        if kind in names
    )


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
