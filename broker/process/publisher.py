"""Applies the metadata to the partitions of this broker, once the broker has caught up.

Source: `BrokerMetadataPublisher` and `ReplicaManager.applyDelta` of Kafka. Nothing is applied before `activate`: an
outdated image may name former leaders, and directories of partitions that it lacks would look like strays. A change of
many partitions is visible immediately, but `run` applies it in pieces.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

from trimaran.broker import events
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.storage.directories import LogDirectories
from trimaran.node.runtime.long_lived import LongLived
from trimaran.node.runtime.pacing import Paced
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
    TopicImage,
)
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.metadata.topics_delta import TopicsDelta
from trimaran.wire.identity import TopicIdPartition, TopicPartition
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# The number of partitions that are applied when they are published; further ones are applied later. 5 to 10 ms of work.
PARTITIONS_AT_ONCE = 500


class BrokerPublisher:
    """A `Publisher` that applies images to the broker's partitions."""

    def __init__(
        self,
        metadata: BrokerMetadata,
        partitions: Partitions,
        settings: TopicSettingsSource,
        directories: LogDirectories,
        report: Callable[[], None],
    ) -> None:
        """`report` sends the controller this broker's metadata offset."""
        self._metadata = metadata
        self._partitions = partitions
        self._settings = settings
        self._directories = directories
        self._report = report
        self._active = False
        self._long_lived = LongLived()
        # Pending (topic id, partition) in order of arrival; at most the partitions of an image.
        self._behind: OrderedDict[TopicIdPartition, None] = OrderedDict()
        self._gone: dict[bytes, TopicImage] = {}  # deleted topics of pending partitions
        self._news = AutoResetEvent()

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        self._metadata.set(image)
        self._apply_configs(delta)
        if self._active:
            self._apply_topics(delta.topics, image)
        if not self._behind:
            self._metadata.applied_offset = image.provenance.offset
        if not self._active:
            return
        if delta.cluster.changed_brokers:
            self._partitions.brokers_changed(frozenset(delta.cluster.changed_brokers))
        if (delta.topics.changed or delta.cluster.changed_brokers) and _in_controlled_shutdown(
            image
        ):
            self._report()

    def _apply_topics(self, delta: TopicsDelta, image: MetadataImage) -> None:
        touched: list[tuple[bytes, Collection[int]]] = []
        touched += [(topic.id, topic.partitions) for topic in delta.deleted.values()]
        touched += [(topic.id, topic.partitions) for topic in delta.changed.values()]
        if sum(len(indices) for _, indices in touched) > PARTITIONS_AT_ONCE:
            self._gone.update(delta.deleted)
            for topic_id, indices in touched:
                self._behind.update(
                    dict.fromkeys(TopicIdPartition(topic_id, index) for index in indices)
                )
            self._news.set()
            return
        for gone in delta.deleted.values():
            self._partitions.apply_topic(gone.name, None)
        for changed in delta.changed.values():
            self._partitions.apply_changes(image.topics.by_id[changed.id], changed.partitions)

    def _apply_configs(self, delta: MetadataDelta) -> None:
        for kind, name in delta.configs.changed:
            if kind == TOPIC_RESOURCE:
                topic: str | None = name
            elif kind == BROKER_RESOURCE:
                topic = None
                if name == str(self._partitions.node_id):
                    self._report()  # directories may have been cordoned
            else:
                continue
            self._settings.changed(topic)
            self._partitions.settings_changed(topic)

    async def activate(self) -> None:
        """Begins the epochs of all partitions and moves strays aside, in small steps; the image must be up to date."""
        image = self._metadata.image
        self._active = True
        self._partitions.begin_with(image.topics)
        async for topic in Paced(image.topics.by_id.values()):
            self._behind.update(
                dict.fromkeys(TopicIdPartition(topic.id, index) for index in topic.partitions)
            )
        await self._catch_up()
        self._partitions.begin_with(None)
        await self._directories.drop_strays(_Wanted(self._metadata, self._partitions))

    async def run(self) -> None:
        """Applies changes of many partitions, in pieces; must begin after `activate`."""
        while True:
            if self._behind:
                await self._catch_up()
            else:
                await self._news.wait()

    async def _catch_up(self) -> None:
        async for topic_id, index in Paced(self._take_behind()):
            topics = self._metadata.image.topics.by_id  # the newest image: publishing continues
            topic = topics.get(topic_id) or self._gone.get(topic_id)
            if topic is not None:  # otherwise the topic was created and deleted in the meantime
                self._apply_one(topic, index, is_gone=topic_id not in topics)
            self._long_lived.add(1)
        self._gone.clear()
        self._metadata.applied_offset = self._metadata.image.provenance.offset
        if _in_controlled_shutdown(self._metadata.image):
            self._report()

    def _take_behind(self) -> Iterator[TopicIdPartition]:
        while self._behind:
            yield self._behind.popitem(last=False)[0]

    def _apply_one(self, topic: TopicImage, index: int, *, is_gone: bool) -> None:
        try:
            if is_gone:
                self._partitions.remove(topic, index)
            else:
                self._partitions.apply_changes(topic, {index: topic.partitions[index]})
        except Exception:  # other partitions must still be applied  # noqa: BLE001 - it is logged, with its traceback
            events.REPLICA_METADATA_FAILED.log(log, exc_info=True, topic=topic.name, index=index)


class _Wanted:
    """The replicas that this broker has or should have, as (topic, partition): the members are tested one by one, never
    listed.
    """

    def __init__(self, metadata: BrokerMetadata, partitions: Partitions) -> None:
        self._metadata = metadata
        self._partitions = partitions

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, TopicPartition)
        if self._partitions.find(key) is not None:
            return True  # a replica that should not exist any more is deleted later
        state = self._partitions.state_of(key)
        return state is not None and self._partitions.node_id in state.replicas


def _in_controlled_shutdown(image: MetadataImage) -> bool:
    """Returns whether a broker is in controlled shutdown: it waits until all other brokers have applied its leadership
    changes.
    """
    return any(
        broker.in_controlled_shutdown and not broker.fenced
        for broker in image.cluster.brokers.values()
    )
