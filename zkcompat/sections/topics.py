"""Topics: assignment, partition states and configs.

Source of the order of writes: `ZkTopicMigrationClient` of Kafka 3.9. A topic always has a config znode, as in ZooKeeper
mode. A replaced topic is deleted before the new one is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionImage, TopicImage
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.identity import LeaderEpoch, TopicPartition
from trimaran.zkcompat.sections.notes import config_note
from trimaran.zkcompat.sections.section import Section, differing_keys
from trimaran.zkcompat.tree.operations import TreeOperation, Znode, create, delete, set_data
from trimaran.zkcompat.znodes.entity_config import CONFIG_TOPICS, EntityConfig
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.partition_state import PartitionStateZnode
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS, TopicAssignment

_NO_CONFIG = EntityConfig({}).encode()


class TopicSection(Section):
    label = "Topic"
    directories: ClassVar[tuple[str, ...]] = (BROKER_TOPICS, CONFIG_TOPICS)

    def names(self, image: MetadataImage) -> Iterable[str]:
        return sorted(image.topics.by_name)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        yield from delta.topics.touched_names()
        yield from _topics_of(delta.configs.changed)

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        yield from differing_keys(before.topics.by_name, after.topics.by_name)
        yield from _topics_of(differing_keys(before.configs.by_resource, after.configs.by_resource))

    def size(self, name: str, image: MetadataImage) -> int:
        topic = image.topics.by_name.get(name)
        return 3 if topic is None else 3 + 2 * len(topic.partitions)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        topic = image.topics.by_name.get(name)
        return () if topic is None else _znodes(topic, image)

    def plan(
        self, name: str, before: MetadataImage, after: MetadataImage
    ) -> Iterator[TreeOperation]:
        old, new = before.topics.by_name.get(name), after.topics.by_name.get(name)
        if old is not None and (new is None or new.id != old.id):
            yield from _delete(old)
            old = None
        if new is None:
            return
        if old is None:
            yield from _create(new, after)
            return
        if old is not new:
            yield from _update(old, new, after)
        if _config(name, before) != _config(name, after):
            yield from _write_config(name, after)

    def notes(self, path: str) -> Iterable[TreeOperation]:
        return (config_note(path),) if path.startswith(f"{CONFIG_TOPICS}/") else ()

    def is_new(self, path: str, znode: Znode) -> bool:
        """True for a topic's first, empty config, which gets no note."""
        return znode.data is None or (
            path.startswith(f"{CONFIG_TOPICS}/") and znode.data == _NO_CONFIG
        )

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        """True for equal content. The controller epoch of a state is ignored, since it only dates the write."""
        if (expected or b"") == (found or b""):
            return True
        if path.endswith("/state"):
            return _same_state(expected, found)
        if path.startswith(f"{CONFIG_TOPICS}/"):
            wanted, actual = (
                decode_or_none(EntityConfig.decode, data) for data in (expected, found)
            )
            return wanted is not None and wanted == actual
        return False


def _topics_of(resources: Iterable[tuple[int, str]]) -> Iterator[str]:
    return (name for kind, name in resources if kind == TOPIC_RESOURCE)


def _config(topic: str, image: MetadataImage) -> object:
    return image.configs.by_resource.get((TOPIC_RESOURCE, topic))


def _same_state(expected: bytes | None, found: bytes | None) -> bool:
    wanted, actual = (
        decode_or_none(PartitionStateZnode.decode, data) for data in (expected, found)
    )
    if wanted is None or actual is None:
        return False
    if not 0 <= actual.controller_epoch <= wanted.controller_epoch:
        return False
    return replace(actual, controller_epoch=wanted.controller_epoch).encode() == expected


def _znodes(topic: TopicImage, image: MetadataImage) -> Iterator[tuple[str, Znode]]:
    """Yields the znodes in the order in which a new topic is written."""
    yield TopicAssignment.path(topic.name), _assignment_znode(topic)
    yield EntityConfig.topic_path(topic.name), _config_znode(topic.name, image)
    yield PartitionStateZnode.parent(topic.name), Znode(None)
    for partition, state in sorted(topic.partitions.items()):
        key = TopicPartition(topic.name, partition)
        yield PartitionStateZnode.partition_path(key), Znode(None)
        yield PartitionStateZnode.path(key), _state_znode(state, image)


def _assignment_znode(topic: TopicImage) -> Znode:
    partitions = sorted(topic.partitions.items())
    assignment = TopicAssignment(
        topic.id,
        {number: p.replicas for number, p in partitions},
        {number: p.adding for number, p in partitions if p.adding},
        {number: p.removing for number, p in partitions if p.removing},
    )
    return Znode(assignment.encode())


def _config_znode(topic: str, image: MetadataImage) -> Znode:
    config = image.configs.by_resource.get((TOPIC_RESOURCE, topic))
    return Znode(EntityConfig(dict(config or {})).encode())


def _state_znode(partition: PartitionImage, image: MetadataImage) -> Znode:
    state = PartitionStateZnode(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=max(image.provenance.epoch, LeaderEpoch(0)),
        leader_recovery_state=partition.leader_recovery_state,
    )
    return Znode(state.encode())


def _delete(topic: TopicImage) -> Iterator[TreeOperation]:
    sentence = f"Deleting topic {topic.name}, ID {uuid_to_text(topic.id)}"
    for partition in sorted(topic.partitions):
        key = TopicPartition(topic.name, partition)
        yield delete(PartitionStateZnode.path(key), "DeleteTopic", sentence)
        yield delete(PartitionStateZnode.partition_path(key), "DeleteTopic", sentence)
    yield delete(PartitionStateZnode.parent(topic.name), "DeleteTopic", sentence)
    yield delete(EntityConfig.topic_path(topic.name), "DeleteTopic", sentence)
    yield delete(TopicAssignment.path(topic.name), "DeleteTopic", sentence)


def _create(topic: TopicImage, image: MetadataImage) -> Iterator[TreeOperation]:
    """Yields the operations of a new topic: an empty config first; the topic's own, if any, follows with its note."""
    sentence = f"Create Topic {topic.name}, ID {uuid_to_text(topic.id)}"
    config_path = EntityConfig.topic_path(topic.name)
    for path, znode in _znodes(topic, image):
        first = Znode(_NO_CONFIG) if path == config_path else znode
        yield create(path, first, "CreateTopic", sentence)
    if _config(topic.name, image):
        yield from _write_config(topic.name, image)


def _update(old: TopicImage, new: TopicImage, image: MetadataImage) -> Iterator[TreeOperation]:
    label = f"Topic {new.name}, ID {uuid_to_text(new.id)}"
    if any(_assignment(old.partitions.get(n)) != _assignment(p) for n, p in new.partitions.items()):
        path = TopicAssignment.path(new.name)
        yield set_data(path, _assignment_znode(new), "UpdateTopic", f"Updating {label}")
    for partition, state in sorted(new.partitions.items()):
        if partition not in old.partitions:
            sentence = f"Create new partitions for {label}"
            key = TopicPartition(new.name, partition)
            parent = PartitionStateZnode.partition_path(key)
            yield create(parent, Znode(None), "UpdatePartitions", sentence)
            path = PartitionStateZnode.path(key)
            yield create(path, _state_znode(state, image), "UpdatePartitions", sentence)
    for partition, state in sorted(new.partitions.items()):
        known = old.partitions.get(partition)
        if known is not None and known is not state and _state(known) != _state(state):
            path = PartitionStateZnode.path(TopicPartition(new.name, partition))
            sentence = f"Updating Partitions for {label}"
            yield set_data(path, _state_znode(state, image), "UpdatePartitions", sentence)


def _assignment(partition: PartitionImage | None) -> object:
    return partition and (partition.replicas, partition.adding, partition.removing)


def _state(partition: PartitionImage) -> object:
    return (
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.leader_recovery_state,
    )


def _write_config(topic: str, image: MetadataImage) -> Iterator[TreeOperation]:
    path = EntityConfig.topic_path(topic)
    sentence = f"Update configs for TOPIC {topic}"
    yield set_data(path, _config_znode(topic, image), "UpdateTopicConfigs", sentence)
    yield config_note(path)
