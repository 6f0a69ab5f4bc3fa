"""Changes to topics and partitions. Source: Kafka's `TopicsDelta`, `TopicDelta`, `PartitionRegistration`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from immutables import Map

from trimaran.quorum.metadata.image import (
    MIGRATING_DIRECTORY,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import BrokerId, LeaderEpoch
from trimaran.wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_LEADER_CHANGE = BrokerId(-2)
NO_RECOVERY_CHANGE = -1
# The number of cached assignments: more than a cluster has at a time, about 4 MB if it has that many.
SHARED_MAX = 1 << 14


class TopicDelta:
    """One new or changed topic: `image` is the topic before (without partitions if new), `partitions` are the changed
    ones.

    A snapshot repeats all partitions of a topic: `replaces` is then true until the snapshot is finished. The changed
    topic is built with every change, because building it at the end would block the loop if there are many partitions.
    """

    __slots__ = ("_applied", "_becomes", "image", "partitions", "replaces")

    def __init__(self, image: TopicImage, *, replaces: bool = False) -> None:
        self.image = image
        self.replaces = replaces
        self.partitions: dict[int, PartitionImage] = {}
        self._becomes = (Map() if replaces else image.partitions).mutate()
        self._applied: TopicImage | None = None

    @property
    def name(self) -> str:
        return self.image.name

    @property
    def id(self) -> bytes:
        return self.image.id

    def partition(self, index: int) -> PartitionImage | None:
        """Returns the partition as of the last record."""
        return self.partitions.get(index) or self.image.partitions.get(index)

    def set_partition(self, index: int, partition: PartitionImage) -> None:
        if self._applied is not None:
            self._becomes, self._applied = self._applied.partitions.mutate(), None
        self.partitions[index] = partition
        self._becomes[index] = partition

    def set_all(self, partitions: Map[int, PartitionImage]) -> None:
        """Replaces all partitions by `partitions`, which are new."""
        self.partitions = dict(partitions)
        self._becomes = partitions.mutate()

    def all_partitions(self) -> dict[int, PartitionImage]:
        """Returns every partition as of the last record."""
        return {**({} if self.replaces else self.image.partitions), **self.partitions}

    def finish_snapshot(self) -> bool:
        """Keeps only changed partitions; returns whether there are any. Partitions are never removed from a topic."""
        old = self.image.partitions
        self.partitions = {i: p for i, p in self.partitions.items() if old.get(i) != p}
        self.replaces = False
        self._becomes, self._applied = old.mutate(), None
        self._becomes.update(self.partitions)
        return bool(self.partitions)

    def apply(self) -> TopicImage:
        """Returns the topic as of the last record."""
        if self._applied is None:
            name, topic_id, _ = self.image
            self._applied = TopicImage(name, topic_id, self._becomes.finish())
        return self._applied


# A topic, a partition number, the old partition (None: it is new) and the new partition.
PartitionChange = tuple[TopicDelta, int, PartitionImage | None, PartitionImage]


class TopicsDelta:
    """Changes to topics. `created` (id → name) is a subset of `changed` (id → delta); `deleted` maps ids to the old
    topics.

    A topic that is created and deleted in one delta is not part of it. A name can be in both: deleted, and created
    again with another id.
    """

    __slots__ = ("_id_of", "_last_added", "changed", "created", "deleted", "image")

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed: dict[bytes, TopicDelta] = {}
        self.created: dict[bytes, str] = {}
        self.deleted: dict[bytes, TopicImage] = {}
        self._id_of: dict[str, bytes] = {}
        self._last_added: TopicDelta | None = None

    @classmethod
    def from_nothing(cls, image: TopicsImage) -> TopicsDelta:
        """Returns the delta of creating every topic; it copies one table for each topic, and no partitions."""
        delta = cls(TopicsImage())
        for topic in image.by_id.values():
            created = delta.changed[topic.id] = TopicDelta(TopicImage(topic.name, topic.id, Map()))
            created.set_all(topic.partitions)
            delta.created[topic.id] = topic.name
            delta._id_of[topic.name] = topic.id
        return delta

    def touched_names(self) -> list[str]:
        """Returns the names of all topics deleted, created or changed, each once."""
        names = [topic.name for topic in self.deleted.values()]
        names += [topic.name for topic in self.changed.values()]
        return list(dict.fromkeys(names))

    def add_topic(self, record: TopicRecord) -> None:
        if self._last_added is not None:
            # The last topic probably has all its partitions now, so it is built here
            self._last_added.apply()
        known = self.image.by_id.get(record.topic_id)
        if known is not None:
            added = TopicDelta(known, replaces=True)
        else:
            added = TopicDelta(TopicImage(record.name, record.topic_id, Map()))
            self.created[record.topic_id] = record.name
            self._id_of[record.name] = record.topic_id
        self.changed[record.topic_id] = self._last_added = added

    def add_partition(self, record: PartitionRecord) -> PartitionChange:
        topic, index = self._topic(record.topic_id), record.partition_id
        before, after = topic.partition(index), partition_of(record)
        topic.set_partition(index, after)
        return topic, index, before, after

    def change_partition(self, record: PartitionChangeRecord) -> PartitionChange:
        topic, index = self._topic(record.topic_id), record.partition_id
        before = topic.partition(index)
        if before is None:
            raise RemoteProtocolError(
                f"the metadata log changes partition {index} of {topic.name}, which does not exist"
            )
        after = merge_change(before, record)
        topic.set_partition(index, after)
        return topic, index, before, after

    def remove_topic(self, record: RemoveTopicRecord) -> str:
        """Removes a topic and returns its name."""
        topic_id = record.topic_id
        changed = self.changed.pop(topic_id, None)
        known = self.image.by_id.get(topic_id)
        if known is not None:
            self.deleted[topic_id] = known
            return known.name
        if changed is None:
            raise RemoteProtocolError(
                f"the metadata log removes topic {uuid_to_text(topic_id)}, which does not exist"
            )
        del self.created[topic_id]
        self._id_of.pop(changed.name, None)
        return changed.name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Clears the ELR of one topic, or of all topics if none is named."""
        for topic_id in self._ids_named(record.topic_name):
            topic = self.changed.get(topic_id)
            partitions = (
                self.image.by_id[topic_id].partitions if topic is None else topic.all_partitions()
            )
            # Few of a hundred thousand partitions have an ELR; the rest only cost this check.
            cleared = [(i, p) for i, p in partitions.items() if p.elr or p.last_known_elr]
            for index, partition in cleared:
                change = PartitionChangeRecord(
                    topic_id=topic_id,
                    partition_id=index,
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
                self._topic(topic_id).set_partition(index, merge_change(partition, change))

    def _ids_named(self, name: str) -> Iterable[bytes]:
        if not name:
            kept = [id_ for id_ in self.image.by_id if id_ not in self.deleted]
            return [*kept, *self.created]
        known = self.image.by_name.get(name)
        if name in self._id_of:
            return [self._id_of[name]]
        if known is not None and known.id not in self.deleted:
            return [known.id]
        raise RemoteProtocolError(
            f"the metadata log clears replicas of topic {name}, which does not exist"
        )

    def _topic(self, topic_id: bytes) -> TopicDelta:
        topic = self.changed.get(topic_id)
        if topic is None:
            known = self.image.by_id.get(topic_id)
            if known is None or topic_id in self.deleted:
                raise RemoteProtocolError(
                    f"the metadata log changes topic {uuid_to_text(topic_id)}, which does not exist"
                )
            topic = self.changed[topic_id] = TopicDelta(known)
        return topic

    def finish_snapshot(self) -> None:
        for topic_id, known in self.image.by_id.items():
            topic = self.changed.get(topic_id)
            if topic is None:
                self.deleted[topic_id] = known
            elif not topic.finish_snapshot():
                del self.changed[topic_id]

    def apply(self) -> TopicsImage:
        if not self.changed and not self.deleted:
            return self.image
        by_name, by_id = self.image.by_name.mutate(), self.image.by_id.mutate()
        for topic in self.deleted.values():
            del by_name[topic.name], by_id[topic.id]
        for changed in self.changed.values():
            topic = changed.apply()
            by_name[topic.name] = by_id[topic.id] = topic
        return TopicsImage(by_name.finish(), by_id.finish())


@lru_cache(maxsize=SHARED_MAX)
def shared(node_ids: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """Returns an equal tuple, the same object for all callers while it is cached.

    A cluster has few different assignments, and an ISR usually equals one of them: sharing them cuts the memory of
    partitions to a quarter.
    """
    return node_ids


def partition_of(record: PartitionRecord) -> PartitionImage:
    """Returns the partition that the record describes: its first record, or its record in a snapshot."""
    return PartitionImage(
        replicas := shared(tuple(record.replicas)),
        _directories(tuple(record.directories), len(replicas)),
        shared(tuple(record.isr)),
        tuple(record.removing_replicas),
        tuple(record.adding_replicas),
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        record.leader,
        record.leader_recovery_state,
        LeaderEpoch(record.leader_epoch),
        record.partition_epoch,
    )


def merge_change(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Returns the partition after a change. Every change increases the partition epoch, and a change that names a
    leader also increases the leader epoch.
    """
    (
        replicas,
        directories,
        isr,
        removing,
        adding,
        elr,
        last_known_elr,
        leader,
        recovery,
        leader_epoch,
        partition_epoch,
    ) = partition
    if record.replicas is not None or record.directories is not None:
        if record.replicas is not None:
            replicas = shared(tuple(record.replicas))
        changed = directories if record.directories is None else tuple(record.directories)
        directories = _directories(changed, len(replicas))
    if record.isr is not None:
        isr = shared(tuple(record.isr))
    if record.removing_replicas is not None:
        removing = shared(tuple(record.removing_replicas))
    if record.adding_replicas is not None:
        adding = shared(tuple(record.adding_replicas))
    if record.eligible_leader_replicas is not None:
        elr = shared(tuple(record.eligible_leader_replicas))
    if record.last_known_elr is not None:
        last_known_elr = shared(tuple(record.last_known_elr))
    if record.leader != NO_LEADER_CHANGE:
        leader = record.leader
        leader_epoch = LeaderEpoch(leader_epoch + 1)
    if record.leader_recovery_state != NO_RECOVERY_CHANGE:
        recovery = record.leader_recovery_state
    return PartitionImage._make(
        (
            replicas,
            directories,
            isr,
            removing,
            adding,
            elr,
            last_known_elr,
            leader,
            recovery,
            leader_epoch,
            partition_epoch + 1,
        )
    )


@lru_cache(maxsize=SHARED_MAX)
def _directories(directories: tuple[bytes, ...], replica_count: int) -> tuple[bytes, ...]:
    """Returns the directories of a record. Logs from before KIP-858 have none, so only the brokers know them. Equal
    tuples are shared.
    """
    if all(directory == MIGRATING_DIRECTORY for directory in directories):
        return (MIGRATING_DIRECTORY,) * replica_count
    if len(directories) != replica_count:
        raise RemoteProtocolError(
            f"the metadata log gives {len(directories)} directories for {replica_count} replicas"
        )
    return directories
