"""Changes of topics and partitions since an image. Source: Kafka's `TopicsDelta`, `PartitionRegistration.merge` (KIP-631)."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from quorum.metadata.image import (
    UNASSIGNED_DIRECTORY,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


class TopicsDelta:
    """Collects changes; a topic that is created and deleted in the same delta leaves no trace."""

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self._changed: dict[bytes, TopicImage] = {}
        self._touched: dict[bytes, set[int]] = {}
        self._deleted: dict[bytes, TopicImage] = {}

    # --- replaying

    def replay_topic(self, record: TopicRecord) -> None:
        self._changed[record.topic_id] = TopicImage(record.name, record.topic_id)
        self._touched[record.topic_id] = set()

    def replay_partition(self, record: PartitionRecord) -> None:
        replicas = tuple(record.replicas)
        self._put(
            record.topic_id,
            record.partition_id,
            PartitionImage(
                replicas=replicas,
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                leader_recovery_state=record.leader_recovery_state,
                directories=tuple(record.directories) or (UNASSIGNED_DIRECTORY,) * len(replicas),
                removing=tuple(record.removing_replicas),
                adding=tuple(record.adding_replicas),
                elr=tuple(record.eligible_leader_replicas or ()),
                last_known_elr=tuple(record.last_known_elr or ()),
            ),
        )

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        before = self.topic(record.topic_id).partitions[record.partition_id]
        self._put(record.topic_id, record.partition_id, merged(before, record))

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Forgets the eligible leaders of one topic, or of all when the name is empty."""
        for topic in [t for t in self.apply().by_id.values() if record.topic_name in {"", t.name}]:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    self._put(topic.id, index, replace(partition, elr=(), last_known_elr=()))

    def replay_remove(self, record: RemoveTopicRecord) -> str:
        """Removes a topic and returns its name."""
        topic = self.topic(record.topic_id)
        self._changed.pop(record.topic_id, None)
        self._touched.pop(record.topic_id, None)
        if (before := self.image.by_id.get(record.topic_id)) is not None:
            self._deleted[record.topic_id] = before
        return topic.name

    def finish_snapshot(self) -> None:
        """What the snapshot did not mention is gone; partitions that it did not change are as if not mentioned."""
        for topic_id, topic in self.image.by_id.items():
            after = self._changed.get(topic_id)
            if after is None:
                self._deleted[topic_id] = topic
                continue
            self._touched[topic_id] = {
                i for i, p in after.partitions.items() if topic.partitions.get(i) != p
            }
            if not self._touched[topic_id] and len(after.partitions) == len(topic.partitions):
                del self._changed[topic_id], self._touched[topic_id]

    def _put(self, topic_id: bytes, index: int, partition: PartitionImage) -> None:
        topic = self.topic(topic_id)
        self._changed[topic_id] = replace(topic, partitions=topic.partitions.set(index, partition))
        self._touched.setdefault(topic_id, set()).add(index)

    # --- questions

    def topic(self, topic_id: bytes) -> TopicImage:
        """The topic as it stands now; KeyError when it does not exist."""
        return self._changed.get(topic_id) or self.image.by_id[topic_id]

    @property
    def created(self) -> list[TopicImage]:
        """Topics that the image did not have, in the order of their records."""
        return [t for t in self._changed.values() if t.id not in self.image.by_id]

    @property
    def deleted(self) -> list[TopicImage]:
        """Topics that the image had and that are gone, as they were."""
        return list(self._deleted.values())

    @property
    def changed(self) -> list[TopicImage]:
        """Topics that exist after the delta and that it created or changed."""
        return list(self._changed.values())

    def changed_partitions(self, topic_id: bytes) -> dict[int, PartitionImage]:
        """The partitions of a topic that the delta created or changed, as they are afterwards."""
        topic = self._changed.get(topic_id)
        if topic is None:
            return {}
        return {i: topic.partitions[i] for i in sorted(self._touched.get(topic_id, ()))}

    def __bool__(self) -> bool:
        return bool(self._changed or self._deleted)

    def apply(self) -> TopicsImage:
        if not self:
            return self.image
        by_id, by_name = self.image.by_id.mutate(), self.image.by_name.mutate()
        for topic in self._deleted.values():
            by_id.pop(topic.id, None)
            by_name.pop(topic.name, None)
        for topic in self._changed.values():
            by_id[topic.id] = topic
            by_name[topic.name] = topic
        return TopicsImage(by_id.finish(), by_name.finish())


def merged(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change record: absent fields stay, a named leader (even the same) raises the leader epoch."""
    new_leader = record.leader != LEADER_UNCHANGED
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    return PartitionImage(
        replicas=replicas,
        isr=before.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if new_leader else before.leader,
        leader_epoch=before.leader_epoch + 1 if new_leader else before.leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        leader_recovery_state=before.leader_recovery_state
        if record.leader_recovery_state == RECOVERY_UNCHANGED
        else record.leader_recovery_state,
        directories=_directories(before, record, replicas),
        removing=before.removing
        if record.removing_replicas is None
        else tuple(record.removing_replicas),
        adding=before.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        elr=before.elr
        if record.eligible_leader_replicas is None
        else tuple(record.eligible_leader_replicas),
        last_known_elr=before.last_known_elr
        if record.last_known_elr is None
        else tuple(record.last_known_elr),
    )


def _directories(
    before: PartitionImage, record: PartitionChangeRecord, replicas: tuple[int, ...]
) -> tuple[bytes, ...]:
    if record.directories:
        return tuple(record.directories)
    if record.replicas is None:
        return before.directories
    known: Map[int, bytes] = Map(zip(before.replicas, before.directories, strict=False))
    return tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in replicas)
