"""Brings the partitions of this broker to what the metadata says, from the moment the broker is caught up.

Source: `BrokerMetadataPublisher` and `ReplicaManager.applyDelta` of Kafka. Until `activate` nothing is done: an image that is
behind may name leaders of long ago, and directories that it does not know yet would look like strays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.directories import LogDirectories
from broker.metadata import BrokerMetadata
from broker.partitions.registry import Partitions
from broker.topic_settings import TopicSettingsSource
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from quorum.metadata.loader import Manifest

log = logging.getLogger(__name__)


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

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        self._metadata.set(image)
        self._apply_configs(delta)
        if not self._active:
            return
        for name in delta.topics.touched_names():
            self._partitions.apply_topic(name, image.topics.by_name.get(name))
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

    def activate(self) -> None:
        """The image is up to date: puts strays aside and begins the partitions' epochs."""
        image = self._metadata.image
        node_id = self._partitions.node_id
        self._directories.drop_strays(
            {
                (topic.name, index)
                for topic in image.topics.by_name.values()
                for index, state in topic.partitions.items()
                if node_id in state.replicas
            }
        )
        self._active = True
        for name, topic in image.topics.by_name.items():
            self._partitions.apply_topic(name, topic)


def _somebody_leaves(image: MetadataImage) -> bool:
    """A broker in controlled shutdown goes when all others have seen its leaderships move."""
    return any(
        broker.in_controlled_shutdown and not broker.fenced
        for broker in image.cluster.brokers.values()
    )
