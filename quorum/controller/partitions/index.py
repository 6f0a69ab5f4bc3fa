"""An index of partitions by broker, so that the cost of a change of a broker is proportional to its own partitions, not
to those of the cluster.

The index follows an image by its deltas, or by a comparison of two images. Keys keep the order in which they were
added, so that decisions are reproducible. Source: Kafka's `BrokersToIsrs`, `BrokersToElrs` and the sets of
`ReplicationControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from immutables import Map

from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage, TopicImage, TopicsImage
from trimaran.quorum.metadata.topic_names import has_collision_characters, in_metrics
from trimaran.quorum.metadata.topics_delta import TopicsDelta
from trimaran.wire.identity import BrokerId, TopicIdPartition

Keys = dict[TopicIdPartition, None]
"""An ordered set."""

_NONE: Keys = {}
_NO_PARTITIONS: Map[int, PartitionImage] = Map()

# The number of partitions of one decision if they need not be decided together: other decisions take their turns in
# between.
PARTITIONS_PER_STEP = 500


class PartitionIndex:
    """A mutable index; it belongs to one epoch of the active controller, or to a standby.

    `topics` is the image that the index reflects, None while it moves from one image to another. `imbalanced`
    partitions are not led by their preferred replica; `reassigning` partitions have replicas to add or to remove.
    """

    _TABLES = ("_eligible", "_in_sync", "_led", "_named_alike", "imbalanced", "reassigning")
    __slots__ = (*_TABLES, "topics")

    def __init__(self) -> None:
        self.topics: TopicsImage | None = TopicsImage()
        self._in_sync: dict[BrokerId, Keys] = {}
        self._eligible: dict[BrokerId, Keys] = {}
        self._led: dict[BrokerId, Keys] = {}
        # Topic names that metrics cannot distinguish, because '.' and '_' are the same character there.
        self._named_alike: dict[str, dict[str, None]] = {}
        self.imbalanced: Keys = {}
        self.reassigning: Keys = {}

    @classmethod
    def of(cls, topics: TopicsImage) -> PartitionIndex:
        index = cls()
        for _ in index.follow(topics):
            pass
        return index

    # --- queries

    def in_sync(self, broker_id: BrokerId) -> Keys:
        """Returns the partitions with the broker in their ISR; a leader is always in it."""
        return self._in_sync.get(broker_id, _NONE)

    def eligible(self, broker_id: BrokerId) -> Keys:
        """Returns the partitions with the broker in their ELR."""
        return self._eligible.get(broker_id, _NONE)

    def led_by(self, broker_id: BrokerId) -> Keys:
        return self._led.get(broker_id, _NONE)

    @property
    def leaderless(self) -> Keys:
        return self.led_by(NO_LEADER)

    def colliding(self, name: str) -> str | None:
        """Returns a topic whose metrics could not be distinguished from those of `name`."""
        alike = self._named_alike.get(in_metrics(name), {})
        return next((topic for topic in alike if topic != name), None)

    def __eq__(self, other: object) -> bool:
        """Returns whether both have the same partitions for each broker, regardless of order."""
        if not isinstance(other, PartitionIndex):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._TABLES)

    __hash__ = None  # type: ignore[assignment]

    # --- changes

    def follow(self, topics: TopicsImage) -> Iterator[None]:
        """Moves to any other image; an object shared by both images is not compared further. One step for each topic,
        and for each partition of changed topics: a million partitions take seconds, and other tasks need turns
        meanwhile.
        """
        before, self.topics = self.topics, None
        assert before is not None
        kept = 0
        for topic_id, topic in topics.by_id.items():
            old = before.by_id.get(topic_id)
            kept += old is not None
            if old is not topic:
                yield from self._replace(old, topic)
            yield
        if kept < len(before.by_id):
            for topic_id, old in before.by_id.items():
                if topic_id not in topics.by_id:
                    # Otherwise the topic was created again, with another id.
                    if old.name not in topics.by_name:
                        self._remove_name(old.name)
                    yield from self._remove_partitions(old)
                yield
        self.topics = topics

    def apply(self, delta: TopicsDelta, topics: TopicsImage) -> Iterator[None]:
        """Moves to `topics`, the result of applying `delta` to the present image; a step for each partition in the
        delta.
        """
        self.topics = None
        for topic in delta.deleted.values():
            self._remove_name(topic.name)
            yield from self._remove_partitions(topic)
        for name in delta.created.values():
            self._add_name(name)
        for topic_id, changed in delta.changed.items():
            before = changed.image.partitions
            for number, partition in changed.partitions.items():
                self._change(TopicIdPartition(topic_id, number), before.get(number), partition)
                yield
        self.topics = topics

    def _replace(self, old: TopicImage | None, new: TopicImage) -> Iterator[None]:
        if old is None:
            self._add_name(new.name)
        before = _NO_PARTITIONS if old is None else old.partitions
        for number, partition in new.partitions.items():
            was = before.get(number)
            if was is not partition:
                self._change(TopicIdPartition(new.id, number), was, partition)
            yield
        for number, was in before.items():
            if (
                number not in new.partitions
            ):  # the partition was added in an epoch that ended before the commit
                self._change(TopicIdPartition(new.id, number), was, None)
            yield

    def _remove_partitions(self, topic: TopicImage) -> Iterator[None]:
        for number, partition in topic.partitions.items():
            self._change(TopicIdPartition(topic.id, number), partition, None)
            yield

    def _add_name(self, name: str) -> None:
        if has_collision_characters(name):
            self._named_alike.setdefault(in_metrics(name), {})[name] = None

    def _remove_name(self, name: str) -> None:
        alike = self._named_alike.get(in_metrics(name))
        if alike is not None:
            alike.pop(name, None)
            if not alike:
                del self._named_alike[in_metrics(name)]

    def _change(
        self, key: TopicIdPartition, old: PartitionImage | None, new: PartitionImage | None
    ) -> None:
        _move(self._in_sync, key, old.isr if old else (), new.isr if new else ())
        _move(self._eligible, key, old.elr if old else (), new.elr if new else ())
        _move(self._led, key, (old.leader,) if old else (), (new.leader,) if new else ())
        _mark(self.imbalanced, key, marked=new is not None and new.leader != new.preferred_leader)
        _mark(self.reassigning, key, marked=new is not None and bool(new.adding or new.removing))


def _move(
    places: dict[BrokerId, Keys],
    key: TopicIdPartition,
    old: Iterable[BrokerId],
    new: Iterable[BrokerId],
) -> None:
    if old == new:
        return
    for broker_id in old:
        if broker_id not in new:
            keys = places[broker_id]
            del keys[key]
            if not keys:
                del places[broker_id]
    for broker_id in new:
        places.setdefault(broker_id, {})[key] = None


def _mark(keys: Keys, key: TopicIdPartition, *, marked: bool) -> None:
    if marked:
        keys[key] = None
    else:
        keys.pop(key, None)
