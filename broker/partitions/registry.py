"""The partitions of this broker, kept in step with the metadata image.

Source: the part of Kafka's `ReplicaManager` that applies `TopicsDelta` and finds partitions for requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from trimaran.broker import events
from trimaran.broker.metadata.topic_settings import TopicSettings
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.services import Services
from trimaran.quorum.metadata.image import PartitionImage, TopicImage, TopicsImage
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_LEADER_EPOCH, BrokerId, Offset, TopicPartition

log = logging.getLogger(__name__)

_NO_PARTITIONS: Mapping[int, Partition] = MappingProxyType({})


class LeadershipListener(Protocol):
    """Hears of the epochs in which this broker leads partitions of one topic. Calls must not block."""

    def began(self, partition_index: int, leader: PartitionLeader) -> None:
        """This broker leads; not called while the log cannot be opened."""

    def ended(self, partition_index: int, leader_epoch: int) -> None:
        """The epoch is over; its watermark is closed. It may be one whose begin was not told."""


class FetcherManager(Protocol):
    """Replicates partitions that this broker follows."""

    def follow(self, partition: Partition) -> None:
        """A follower epoch begins."""

    def unfollow(self, partition: Partition) -> None:
        """Whatever epoch of it was followed is over."""


class Partitions:
    """All replicas that the image assigns to this broker."""

    def __init__(
        self,
        services: Services,
        fetchers: FetcherManager,
        saved_watermark: Callable[[TopicPartition], int],
    ) -> None:
        """`saved_watermark` tells the checkpointed high watermark of a partition, 0 if there is none."""
        self._services = services
        self._fetchers = fetchers
        self._saved_watermark = saved_watermark
        self._topics: dict[str, dict[int, Partition]] = {}
        self._listeners: dict[str, LeadershipListener] = {}
        self._began_with: TopicsImage | None = None
        self.node_id = services.node_id
        self.suspects = services.suspects
        self.traffic = services.traffic

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._topics.values()):
            yield from list(partitions.values())

    def listen(self, topic: str, listener: LeadershipListener) -> None:
        """Tells `listener` of this topic from now on; one listener a topic, registered before the first image."""
        self._listeners[topic] = listener

    def settings_of(self, topic: str) -> TopicSettings:
        return self._services.settings.of(topic)

    # -- finding

    def find(self, key: TopicPartition) -> Partition | None:
        """Returns the replica here, None if there is none."""
        partitions = self._topics.get(key.topic)
        return None if partitions is None else partitions.get(key.partition)

    def named(self, topic: str, topic_id: bytes) -> tuple[str | None, Mapping[int, Partition]]:
        """The name of the topic that a request names, None for an unknown id, and its partitions here. The id counts
        unless it is `NIL_UUID`.
        """
        if topic_id == NIL_UUID:
            return topic, self._topics.get(topic, _NO_PARTITIONS)
        known = self._services.metadata.image.topics.by_id.get(topic_id)
        if known is None:
            return None, _NO_PARTITIONS
        return known.name, self._topics.get(known.name, _NO_PARTITIONS)

    def topic_name(self, topic_id: bytes) -> str:
        """Raises KafkaError UNKNOWN_TOPIC_ID."""
        topic = self._services.metadata.image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def state_of(self, key: TopicPartition) -> PartitionImage | None:
        """Returns the state of a partition in the image, on any broker."""
        topic = self._services.metadata.image.topics.by_name.get(key.topic)
        return None if topic is None else topic.partitions.get(key.partition)

    def hosted(self, key: TopicPartition, current_leader_epoch: int = NO_LEADER_EPOCH) -> Partition:
        """The partition, if the caller's idea of its epoch is ours.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (it exists, elsewhere), FENCED_LEADER_EPOCH,
                UNKNOWN_LEADER_EPOCH (we may be behind), KAFKA_STORAGE_ERROR.
        """
        partition = self.find(key)
        if partition is None:
            unknown = self.state_of(key) is None
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if unknown
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        if current_leader_epoch != NO_LEADER_EPOCH:
            epoch = partition.state.leader_epoch
            if current_leader_epoch < epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > epoch:
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return partition

    def leader_of(
        self, key: TopicPartition, current_leader_epoch: int = NO_LEADER_EPOCH
    ) -> PartitionLeader:
        """The epoch in which this broker leads the partition; raises as `hosted`, and NOT_LEADER_OR_FOLLOWER."""
        return self.hosted(key, current_leader_epoch).open_leader()

    # -- following the image

    def begin_with(self, topics: TopicsImage | None) -> None:
        """The replicas in `topics` were made before this process began, whenever they are applied; all others are new.
        None: all that is not here yet is new.
        """
        self._began_with = topics

    def _is_new(self, topic: TopicImage, index: int) -> bool:
        before = None if self._began_with is None else self._began_with.by_id.get(topic.id)
        state = None if before is None else before.partitions.get(index)
        return state is None or self.node_id not in state.replicas

    def apply_topic(self, name: str, new: TopicImage | None) -> None:
        """Makes this topic's partitions here what `new` says (None: the topic is gone)."""
        for index, partition in list(self._topics.get(name, {}).items()):
            if new is None or partition.topic_id != new.id or index not in new.partitions:
                self._remove(partition)
        if new is not None:
            self.apply_changes(new, new.partitions)

    def apply_changes(self, topic: TopicImage, changed: Mapping[int, PartitionImage]) -> None:
        """Makes the `changed` partitions of a topic here what they are now; costs nothing for the others."""
        for index, state in changed.items():
            known = self._topics.get(topic.name, _NO_PARTITIONS).get(index)
            if known is not None and known.topic_id != topic.id:
                self._remove(known)  # of a topic of that name that was deleted
                known = None
            if self.node_id not in state.replicas:
                if known is not None:
                    self._remove(known)
            elif known is None:
                self._add(topic, index, state)
            elif known.state is not state:
                self._change(known, state)

    def remove(self, gone: TopicImage, index: int) -> None:
        """A partition of a topic that was deleted; what another one of its name has here stays."""
        known = self.find(TopicPartition(gone.name, index))
        if known is not None and known.topic_id == gone.id:
            self._remove(known)

    def _add(self, topic: TopicImage, index: int, state: PartitionImage) -> None:
        key = TopicPartition(topic.name, index)
        saved = self._saved_watermark(key)
        is_new = self._is_new(topic, index)
        if is_new:
            for directory in self._services.directories.all:
                directory.offsets.expect(key)
        partition = Partition(self._services, key, topic.id, state, Offset(saved), is_new=is_new)
        self._topics.setdefault(topic.name, {})[index] = partition
        self._begin(partition)

    def _change(self, partition: Partition, state: PartitionImage) -> None:
        led, epoch = partition.leads, partition.state.leader_epoch
        if partition.apply(state):
            self._tell_ended(partition, led, epoch)
            self._begin(partition)

    def _remove(self, partition: Partition) -> None:
        led, epoch = partition.leads, partition.state.leader_epoch
        partition.close()
        self._tell_ended(partition, led, epoch)
        of_topic = self._topics[partition.topic]
        del of_topic[partition.index]
        if not of_topic:
            del self._topics[partition.topic]
            self.traffic.forget(partition.topic)
        self._services.directories.delete_log(partition.topic_partition, partition.topic_id)

    def _begin(self, partition: Partition) -> None:
        if partition.follows:
            self._fetchers.follow(partition)
            partition.claim()
        elif not partition.leads:
            partition.claim()
        elif listener := self._listeners.get(partition.topic):
            try:
                leader = partition.open_leader()
            except KafkaError as error:
                events.REPLICA_UNUSABLE.log(log, partition=partition.name, error=error)
                return
            listener.began(partition.index, leader)

    def _tell_ended(self, partition: Partition, led: bool, leader_epoch: int) -> None:
        if not led:
            self._fetchers.unfollow(partition)
        elif listener := self._listeners.get(partition.topic):
            listener.ended(partition.index, leader_epoch)

    def reopen(
        self, partitions: Iterable[Partition], move: Callable[[], None] = lambda: None
    ) -> None:
        """Ends the epochs of `partitions`, does what `move` does with their logs, and begins them again; no request
        reads in between.

        Waiting requests get NOT_LEADER_OR_FOLLOWER, and their clients ask again. Raises what `move` raises; the
        epochs begin again then too.
        """
        held = list(partitions)
        for partition in held:
            led, epoch = partition.leads, partition.state.leader_epoch
            partition.release_log()
            self._tell_ended(partition, led, epoch)
        try:
            move()
        finally:
            for partition in held:
                self._begin(partition)

    def take_out(self, partition: Partition, reason: str) -> None:
        """The log of `partition` is damaged: nothing of it is served any more, and the controller has another replica
        lead.
        """
        self.reopen(
            [partition],
            lambda: self._services.directories.take_out(
                partition.topic_partition, partition.topic_id, reason
            ),
        )

    def brokers_changed(self, broker_ids: frozenset[BrokerId]) -> None:
        """Registrations of `broker_ids` changed: leaders look at these followers again."""
        for partition in self:
            leader = partition.leader_or_none
            if leader is not None and not broker_ids.isdisjoint(leader.followers):
                leader.reconsider_followers()

    def settings_changed(self, topic: str | None) -> None:
        """The configuration of `topic` changed; None: that of all."""
        for partition in self if topic is None else self._topics.get(topic, {}).values():
            partition.settings_changed()

    @staticmethod
    def drop_lagging_followers(some: Iterable[Partition]) -> None:
        for partition in some:
            if (leader := partition.leader_or_none) is not None and leader.followers:
                leader.drop_lagging()

    def watermarks(self) -> dict[TopicPartition, Offset]:
        """High watermarks for the checkpoint; those of partitions not used since the start as they were read, without
        those never used.
        """
        return {
            partition.topic_partition: partition.high_watermark
            for partition in self
            if partition.open_log is not None or partition.high_watermark or partition.known_end
        }

    def close(self) -> None:
        """Ends every epoch and closes every log."""
        for partition in self:
            partition.close()
