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
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.metadata.image import PartitionImage, TopicImage, TopicsImage
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition

log = logging.getLogger(__name__)

_NO_PARTITIONS: Mapping[int, Partition] = MappingProxyType({})


class LeadershipListener(Protocol):
    """A listener for the epochs in which this broker leads partitions of one topic. Calls must not block."""

    def began(self, partition_index: int, leader: PartitionLeader) -> None:
        """Begins a leader epoch; not called while the log cannot be opened."""

    def ended(self, partition_index: int, leader_epoch: LeaderEpoch) -> None:
        """Ends a leader epoch after its watermark was closed. `began` may not have been called for it."""


class FetcherManager(Protocol):
    """Replicates the partitions that this broker follows."""

    def follow(self, partition: Partition) -> None:
        """Begins to replicate a follower epoch."""

    def unfollow(self, partition: Partition) -> None:
        """Stops replicating the partition, whichever epoch it was in."""


class Partitions:
    """All replicas that the image assigns to this broker."""

    def __init__(
        self,
        services: Services,
        fetchers: FetcherManager,
        saved_watermark: Callable[[TopicPartition], Offset],
    ) -> None:
        """`saved_watermark` returns the checkpointed high watermark of a partition, or 0."""
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
        """Registers the only listener of a topic; must be called before the first image is applied."""
        self._listeners[topic] = listener

    def settings_of(self, topic: str) -> TopicSettings:
        return self._services.settings.of(topic)

    # -- finding

    def find(self, key: TopicPartition) -> Partition | None:
        """Returns this broker's replica, or None."""
        partitions = self._topics.get(key.topic)
        return None if partitions is None else partitions.get(key.partition)

    def named(self, topic: str, topic_id: bytes) -> tuple[str | None, Mapping[int, Partition]]:
        """Returns the name of a requested topic (None for an unknown id) and this broker's partitions of it. The id
        takes precedence unless it is `NIL_UUID`.
        """
        if topic_id == NIL_UUID:
            return topic, self._topics.get(topic, _NO_PARTITIONS)
        known = self._services.metadata.image.topics.by_id.get(topic_id)
        if known is None:
            return None, _NO_PARTITIONS
        return known.name, self._topics.get(known.name, _NO_PARTITIONS)

    def topic_name(self, topic_id: bytes) -> str:
        """Returns the name of a topic. Raises KafkaError UNKNOWN_TOPIC_ID."""
        topic = self._services.metadata.image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def state_of(self, key: TopicPartition) -> PartitionImage | None:
        """Returns the metadata of a partition on any broker, or None."""
        topic = self._services.metadata.image.topics.by_name.get(key.topic)
        return None if topic is None else topic.partitions.get(key.partition)

    def hosted(
        self, key: TopicPartition, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> Partition:
        """Returns this broker's replica if the caller has the current leader epoch.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (only other brokers have replicas),
            FENCED_LEADER_EPOCH,
                UNKNOWN_LEADER_EPOCH (this broker may lag behind), KAFKA_STORAGE_ERROR.
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
        self, key: TopicPartition, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> PartitionLeader:
        """Returns the leader epoch of the partition. Raises as `hosted` does, and NOT_LEADER_OR_FOLLOWER."""
        return self.hosted(key, current_leader_epoch).open_leader()

    # -- changes of the image

    def begin_with(self, topics: TopicsImage | None) -> None:
        """Declares that the replicas in `topics` are older than this process, even if they are applied later; all other
        replicas are new. With None, all replicas without a log are new.
        """
        self._began_with = topics

    def _is_new(self, topic: TopicImage, index: int) -> bool:
        before = None if self._began_with is None else self._began_with.by_id.get(topic.id)
        state = None if before is None else before.partitions.get(index)
        return state is None or self.node_id not in state.replicas

    def apply_topic(self, name: str, new: TopicImage | None) -> None:
        """Applies the newest metadata of a topic to this broker's partitions; `new` is None if the topic is gone."""
        for index, partition in list(self._topics.get(name, {}).items()):
            if new is None or index not in new.partitions:
                self._remove(partition)
        if new is not None:
            self.apply_changes(new, new.partitions)

    def apply_changes(self, topic: TopicImage, changed: Mapping[int, PartitionImage]) -> None:
        """Applies the `changed` partitions of a topic; unchanged ones cost nothing."""
        for index, state in changed.items():
            known = self._topics.get(topic.name, _NO_PARTITIONS).get(index)
            if known is not None and known.topic_id != topic.id:
                self._remove(known)  # the replica belongs to a deleted topic of this name
                known = None
            if self.node_id not in state.replicas:
                if known is not None:
                    self._remove(known)
            elif known is None:
                self._add(topic, index, state)
            elif known.state is not state:
                self._change(known, state)

    def remove(self, gone: TopicImage, index: int) -> None:
        """Removes a partition of a deleted topic; partitions of a new topic with its name remain."""
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
        partition = Partition(self._services, key, topic.id, state, saved, is_new=is_new)
        self._topics.setdefault(topic.name, {})[index] = partition
        self._begin(partition)

    def _change(self, partition: Partition, state: PartitionImage) -> None:
        led, epoch = partition.leads, partition.state.leader_epoch
        if partition.apply(state):
            self._notify_ended(partition, led, epoch)
            self._begin(partition)

    def _remove(self, partition: Partition) -> None:
        led, epoch = partition.leads, partition.state.leader_epoch
        partition.close()
        self._notify_ended(partition, led, epoch)
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

    def _notify_ended(self, partition: Partition, led: bool, leader_epoch: LeaderEpoch) -> None:
        if not led:
            self._fetchers.unfollow(partition)
        elif listener := self._listeners.get(partition.topic):
            listener.ended(partition.index, leader_epoch)

    def reopen(
        self, partitions: Iterable[Partition], move: Callable[[], None] = lambda: None
    ) -> None:
        """Ends the epochs of `partitions`, calls `move` to move their logs, and begins new epochs; no request reads in
        between.

        Waiting requests get NOT_LEADER_OR_FOLLOWER, and their clients retry. Raises the errors of `move`, after new
        epochs have begun.
        """
        held = list(partitions)
        for partition in held:
            led, epoch = partition.leads, partition.state.leader_epoch
            partition.release_log()
            self._notify_ended(partition, led, epoch)
        try:
            move()
        finally:
            for partition in held:
                self._begin(partition)

    def take_out(self, partition: Partition, reason: str) -> None:
        """Takes the damaged log of `partition` out of service; the controller then elects another leader."""
        self.reopen(
            [partition],
            lambda: self._services.directories.take_out(
                partition.topic_partition, partition.topic_id, reason
            ),
        )

    def brokers_changed(self, broker_ids: frozenset[BrokerId]) -> None:
        """Makes leaders check their followers again after changed registrations of `broker_ids`."""
        for partition in self:
            leader = partition.leader_or_none
            if leader is not None and not broker_ids.isdisjoint(leader.followers):
                leader.reconsider_followers()

    def settings_changed(self, topic: str | None) -> None:
        """Applies the changed configuration of `topic`, or of all topics if it is None."""
        for partition in self if topic is None else self._topics.get(topic, {}).values():
            partition.settings_changed()

    def watermarks(self) -> Steps[dict[TopicPartition, Offset]]:
        """Returns the high watermarks for the checkpoint, in steps of one partition. Includes the saved values of
        partitions not opened since startup; omits partitions that were never used.
        """
        found: dict[TopicPartition, Offset] = {}
        for partition in self:
            high_watermark = partition.high_watermark
            if high_watermark or partition.open_log is not None or partition.known_end:
                found[partition.topic_partition] = high_watermark
            yield 1
        return found

    def close(self) -> None:
        """Ends every epoch and closes every log."""
        for partition in self:
            partition.close()
