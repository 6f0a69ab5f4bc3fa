"""What to write: `(delta, image) → operations`, and `(tree as found, image) → operations`. Pure.

Source: Kafka 3.9's `KRaftMigrationZkWriter` (`handleDelta`, `handleSnapshot`): deleted topics, new and changed topics,
configs each with its notification, producer ids, in that order. We go further: live brokers come first; only what
differs is written (Kafka wrote the state of every touched partition, and after a fail-over of all); a topic that loses
its last config keeps an empty one, as in ZooKeeper mode; deleted states are made again; a replaced topic is deleted
before the new one is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from wire.primitives import uuid_to_text
from zkcompat.changes import Changes
from zkcompat.names import config_entity
from zkcompat.operations import Kind, Operation, create, delete, set_data
from zkcompat.render import (
    is_live,
    render,
    render_assignment,
    render_broker,
    render_broker_config,
    render_producer_ids,
    render_state,
    render_topic_config,
    topic_znodes,
)
from zkcompat.tree import FoundTree, FoundZnode, Znode, is_owned, same_data
from zkcompat.znodes import (
    CONFIG_BROKERS,
    CONFIG_CHANGE_PREFIX,
    CONFIG_TOPICS,
    BrokerInfo,
    ConfigChange,
    EntityConfig,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)

K = TypeVar("K")


def plan(delta: MetadataDelta, image: MetadataImage) -> list[Operation]:
    """The operations that lead from the tree of `delta`'s image to the tree of `image`."""
    changes = Changes()
    changes.add(delta)
    return plan_changes(delta.image, image, changes)


def plan_changes(before: MetadataImage, after: MetadataImage, changes: Changes) -> list[Operation]:
    """The same over several deltas at once: `changes` names what may differ between the two images."""
    if changes.everything:
        changes = _everything_between(before, after)
    operations = [op for broker_id in changes.brokers for op in _broker(before, after, broker_id)]
    replaced = [(before.topics.by_name.get(t), after.topics.by_name.get(t)) for t in changes.topics]
    for old, new in replaced:
        if old is not None and (new is None or new.id != old.id):
            operations += _delete_topic(old)
    for old, new in replaced:
        if new is not None:
            kept = old if old is not None and old.id == new.id else None
            operations += _create_topic(new, after) if kept is None else _topic(kept, new, after)
    for kind, name in changes.configs:
        operations += _config(before, after, kind, name)
    operations += _producer_ids(before, after)
    return operations


def reconcile(
    found: FoundTree, image: MetadataImage, cluster_id: str, session_id: int
) -> list[Operation]:
    """The operations that make a tree that was read equal to the image's: differences only.

    `session_id` is the mirror's: an ephemeral znode of another session is made again in ours.
    """
    expected = render(image, cluster_id)
    operations: list[Operation] = []
    notes: list[Operation] = []  # last: the parent of notes may be missing too
    for path in sorted((p for p in found if is_owned(p) and p not in expected), reverse=True):
        sentence = f"Deleting {path}, which the image does not have"
        operations.append(delete(path, "DeleteExtra", sentence))
        notes += _notify_of(path)
    for path, znode in expected.items():
        actual = found.get(path)
        if actual is None:
            sentence = f"Creating {path}, which was missing"
            operations.append(create(path, znode, "CreateMissing", sentence))
        elif actual.owner != (session_id if znode.ephemeral else 0):
            operations += _replace(path, znode, actual)
        elif not same_data(path, znode.data, actual.data):
            sentence = f"Updating {path}, which differed"
            operations.append(set_data(path, znode, "UpdateDifferent", sentence))
        else:
            continue
        if actual is not None or not _is_new_topic_config(path, znode):
            notes += _notify_of(path)
    return operations + notes


def _everything_between(before: MetadataImage, after: MetadataImage) -> Changes:
    """Every entity of either image whose value is not the same object in both."""
    changes = Changes()
    changes.brokers = dict.fromkeys(_differing(before.cluster.brokers, after.cluster.brokers))
    changes.topics = dict.fromkeys(_differing(before.topics.by_name, after.topics.by_name))
    changes.configs = dict.fromkeys(
        _differing(before.configs.by_resource, after.configs.by_resource)
    )
    return changes


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> list[K]:
    gone = [key for key in before if key not in after]
    return gone + [key for key, value in after.items() if before.get(key) is not value]


def _broker(before: MetadataImage, after: MetadataImage, broker_id: int) -> Iterator[Operation]:
    old, new = before.cluster.brokers.get(broker_id), after.cluster.brokers.get(broker_id)
    path = BrokerInfo.path(broker_id)
    if is_live(old) and not (is_live(new) and _same_registration(old, new)):
        yield delete(
            path, "DeleteBroker", f"Broker {broker_id} is fenced, unregistered or registered again"
        )
    if new is not None and is_live(new) and not (is_live(old) and _same_registration(old, new)):
        yield create(path, render_broker(new, after), "CreateBroker", f"Broker {broker_id} is live")


def _same_registration(old: BrokerRegistration | None, new: BrokerRegistration | None) -> bool:
    """A new incarnation gets a new znode: watchers see it go and come, and its creation zxid is new."""
    return (
        old is not None
        and new is not None
        and (old.epoch, old.listeners, old.rack)
        == (
            new.epoch,
            new.listeners,
            new.rack,
        )
    )


def _delete_topic(topic: TopicImage) -> Iterator[Operation]:
    sentence = f"Deleting topic {topic.name}, ID {uuid_to_text(topic.id)}"
    for partition in sorted(topic.partitions):
        yield delete(PartitionState.path(topic.name, partition), "DeleteTopic", sentence)
        yield delete(PartitionState.partition_path(topic.name, partition), "DeleteTopic", sentence)
    yield delete(PartitionState.parent(topic.name), "DeleteTopic", sentence)
    yield delete(EntityConfig.topic_path(topic.name), "DeleteTopic", sentence)
    yield delete(TopicAssignment.path(topic.name), "DeleteTopic", sentence)


def _create_topic(topic: TopicImage, image: MetadataImage) -> Iterator[Operation]:
    """The config is empty at first, and follows with its notification when the topic has one."""
    sentence = f"Create Topic {topic.name}, ID {uuid_to_text(topic.id)}"
    config_path = EntityConfig.topic_path(topic.name)
    empty = Znode(EntityConfig({}).encode())
    for path, znode in topic_znodes(topic, image):
        yield create(path, empty if path == config_path else znode, "CreateTopic", sentence)
    if image.configs.by_resource.get((TOPIC_RESOURCE, topic.name)):
        yield from _write_topic_config(topic.name, image)


def _topic(old: TopicImage, new: TopicImage, image: MetadataImage) -> Iterator[Operation]:
    if old is new:
        return
    label = f"Topic {new.name}, ID {uuid_to_text(new.id)}"
    if any(_assignment(old.partitions.get(n)) != _assignment(p) for n, p in new.partitions.items()):
        path = TopicAssignment.path(new.name)
        yield set_data(path, render_assignment(new), "UpdateTopic", f"Updating {label}")
    for partition, state in sorted(new.partitions.items()):
        known = old.partitions.get(partition)
        path = PartitionState.path(new.name, partition)
        if known is None:
            parent = PartitionState.partition_path(new.name, partition)
            sentence = f"Create new partitions for {label}"
            yield create(parent, Znode(None), "UpdatePartitions", sentence)
            yield create(path, render_state(state, image), "UpdatePartitions", sentence)
    for partition, state in sorted(new.partitions.items()):
        known = old.partitions.get(partition)
        if known is not None and _state(known) != _state(state):
            path = PartitionState.path(new.name, partition)
            sentence = f"Updating Partitions for {label}"
            yield set_data(path, render_state(state, image), "UpdatePartitions", sentence)


def _assignment(partition: PartitionImage | None) -> object:
    return partition and (partition.replicas, partition.adding, partition.removing)


def _state(partition: PartitionImage) -> object:
    return (
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.leader_recovery_state,
    )


def _config(
    before: MetadataImage, after: MetadataImage, kind: int, name: str
) -> Iterator[Operation]:
    if before.configs.by_resource.get((kind, name)) == after.configs.by_resource.get((kind, name)):
        return
    if kind == TOPIC_RESOURCE:
        old, new = before.topics.by_name.get(name), after.topics.by_name.get(name)
        if old is not None and new is not None and old.id == new.id:
            yield from _write_topic_config(name, after)
    elif kind == BROKER_RESOURCE:
        yield from _write_broker_config(before, after, name)


def _write_topic_config(topic: str, image: MetadataImage) -> Iterator[Operation]:
    path = EntityConfig.topic_path(topic)
    sentence = f"Update configs for TOPIC {topic}"
    yield set_data(path, render_topic_config(image, topic), "UpdateTopicConfigs", sentence)
    yield from _notify_of(path)


def _write_broker_config(
    before: MetadataImage, after: MetadataImage, name: str
) -> Iterator[Operation]:
    path = EntityConfig.broker_path(config_entity(name))
    old, new = render_broker_config(before, name), render_broker_config(after, name)
    if old == new:
        return
    if new is None:
        yield delete(path, "DeleteBrokerConfigs", f"Delete configs for BROKER {name}")
    elif old is None:
        yield create(path, new, "UpdateBrokerConfigs", f"Create configs for BROKER {name}")
    else:
        yield set_data(path, new, "UpdateBrokerConfigs", f"Update configs for BROKER {name}")
    yield from _notify_of(path)


def _producer_ids(before: MetadataImage, after: MetadataImage) -> Iterable[Operation]:
    if before.producer_ids == after.producer_ids:
        return ()
    znode = render_producer_ids(after)
    sentence = f"Setting next producer ID {after.producer_ids.next_producer_id}"
    return (set_data(ProducerIdBlock.PATH, znode, "UpdateProducerId", sentence),)


def _notify_of(config_path: str) -> Iterator[Operation]:
    """The sequential note that tells old brokers to read a config again; nothing for other paths."""
    for root in (CONFIG_TOPICS, CONFIG_BROKERS):
        if config_path.startswith(f"{root}/"):
            entity_path = config_path.removeprefix("/config/")
            yield Operation(
                Kind.CREATE,
                CONFIG_CHANGE_PREFIX,
                "ConfigChange",
                f"Telling of the changed config of {entity_path}",
                ConfigChange(entity_path).encode(),
                sequential=True,
            )


def _is_new_topic_config(path: str, znode: Znode) -> bool:
    return path.startswith(f"{CONFIG_TOPICS}/") and znode.data == EntityConfig({}).encode()


def _replace(path: str, znode: Znode, found: FoundZnode) -> Iterator[Operation]:
    owner = f"session {found.owner:#x}" if found.owner else "no session"
    sentence = f"Taking over {path}, which belonged to {owner}"
    yield delete(path, "TakeOver", sentence)
    yield create(path, znode, "TakeOver", sentence)
