"""Brings the partitions of this broker to what the metadata says, from the moment the broker is caught up.

Source: `BrokerMetadataPublisher` and `ReplicaManager.applyDelta` of Kafka. Until `activate` nothing is done: an image that is
behind may name leaders of long ago, and directories that it does not know yet would look like strays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from broker.directories import LogDirectories
from broker.metadata import BrokerMetadata
from broker.partitions.registry import Partitions
from broker.topic_settings import TopicSettingsSource
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from quorum.metadata.loader import Manifest
from quorum.metadata_batches import in_pieces
from quorum.runtime.long_lived import LongLived

log = logging.getLogger(__name__)

# Partitions begun between two checkpoints: 5 to 10 ms of work.
PARTITIONS_PER_TURN = 500


class BrokerPublisher:
    """A `Publisher` of the metadata loader."""

    def __init__(
        self,
        metadata: BrokerMetadata,
        partitions: Partitions,
        settings: TopicSettingsSource,
        directories: LogDirectories,
        report: Callable[[], None],
    ) -> None:
        """`report` tells the controller how far this broker is."""
        self._metadata = metadata
        self._partitions = partitions
        self._settings = settings
        self._directories = directories
        self._report = report
        self._active = False
        self._long_lived = LongLived()

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        self._metadata.set(image)
        self._apply_configs(delta)
        if not self._active:
            return
        for gone in delta.topics.deleted.values():
            self._partitions.apply_topic(gone.name, image.topics.by_name.get(gone.name))
        for changed in delta.topics.changed.values():
            self._partitions.apply_changes(image.topics.by_id[changed.id], changed.partitions)
        if delta.cluster.changed_brokers:
            self._partitions.brokers_changed(frozenset(delta.cluster.changed_brokers))
        if (delta.topics.changed or delta.cluster.changed_brokers) and _somebody_leaves(image):
            self._report()

    def _apply_configs(self, delta: MetadataDelta) -> None:
        for kind, name in delta.configs.changed:
            if kind == TOPIC_RESOURCE:
                topic: str | None = name
            elif kind == BROKER_RESOURCE:
                topic = None
            else:
                continue
            self._settings.changed(topic)
            self._partitions.settings_changed(topic)

    async def activate(self) -> None:
        """The image is up to date: puts strays aside and begins the partitions' epochs, some at a time."""
        image = self._metadata.image
        self._directories.drop_strays(_Assigned(image, self._partitions.node_id))
        self._active = True
        keys = (
            (topic.id, index) for topic in image.topics.by_id.values() for index in topic.partitions
        )
        for piece, _ in in_pieces(keys, PARTITIONS_PER_TURN):
            topics = self._metadata.image.topics.by_id  # newest, as publishing goes on in between
            for topic_id, index in piece:
                topic = topics.get(topic_id)
                if topic is not None:
                    self._partitions.apply_changes(topic, {index: topic.partitions[index]})
            self._long_lived.add(len(piece))
            await trio.lowlevel.checkpoint()


class _Assigned:
    """The replicas that an image gives to a broker, as (topic, partition): asked for few, never listed."""

    def __init__(self, image: MetadataImage, node_id: int) -> None:
        self._topics = image.topics.by_name
        self._node_id = node_id

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        name, index = key
        topic = self._topics.get(name)
        state = None if topic is None else topic.partitions.get(index)
        return state is not None and self._node_id in state.replicas


def _somebody_leaves(image: MetadataImage) -> bool:
    """A broker in controlled shutdown goes when all others have seen its leaderships move."""
    return any(
        broker.in_controlled_shutdown and not broker.fenced
        for broker in image.cluster.brokers.values()
    )
