"""Which partitions concern a broker, so that its coming and going costs what it changes and not what the cluster has.

Kept in step with an image by its deltas. The order of keys is that in which they came, so that decisions can be repeated.
Source: Kafka's `BrokersToIsrs`, `BrokersToElrs` and the sets of `ReplicationControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorum.metadata.image import NO_LEADER, PartitionImage, TopicsImage
from quorum.metadata.topic_names import has_collision_characters, in_metrics
from quorum.metadata.topics_delta import TopicsDelta

Key = tuple[bytes, int]
"""Topic id and partition."""

Keys = dict[Key, None]
"""A set that keeps its order."""

_NONE: Keys = {}

# Partitions of one decision where not all need be decided together: others have their turn in between, and the first are not kept waiting.
PARTITIONS_PER_STEP = 500


class PartitionIndex:
    """Mutable; belongs to one epoch of the active controller.

    `imbalanced` are led by another than the preferred replica, `reassigning` have replicas to add or to remove.
    """

    __slots__ = ("_eligible", "_in_sync", "_led", "_named_alike", "imbalanced", "reassigning")

    def __init__(self) -> None:
        self._in_sync: dict[int, Keys] = {}
        self._eligible: dict[int, Keys] = {}
        self._led: dict[int, Keys] = {}
        # Names that metrics cannot tell apart, where '.' and '_' are one character.
        self._named_alike: dict[str, dict[str, None]] = {}
        self.imbalanced: Keys = {}
        self.reassigning: Keys = {}

    @classmethod
    def of(cls, topics: TopicsImage) -> PartitionIndex:
        index = cls()
        for _ in index.add_all(topics):
            pass
        return index

    # --- questions

    def in_sync(self, broker_id: int) -> Keys:
        """Partitions that have the broker in their ISR; a leader is always in it."""
        return self._in_sync.get(broker_id, _NONE)

    def eligible(self, broker_id: int) -> Keys:
        """Partitions that have the broker among their eligible leader replicas."""
        return self._eligible.get(broker_id, _NONE)

    def led_by(self, broker_id: int) -> Keys:
        return self._led.get(broker_id, _NONE)

    @property
    def leaderless(self) -> Keys:
        return self.led_by(NO_LEADER)

    def colliding(self, name: str) -> str | None:
        """A topic whose metrics could not be told from those of `name`."""
        alike = self._named_alike.get(in_metrics(name), {})
        return next((one for one in alike if one != name), None)

    def __eq__(self, other: object) -> bool:
        """The same partitions in the same places, in whatever order they came."""
        if not isinstance(other, PartitionIndex):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    # --- changes

    def add_all(self, topics: TopicsImage) -> Iterator[Key]:
        """Adds every partition of an image, a step each: a million takes seconds, in which others want a turn."""
        for topic in topics.by_id.values():
            self._add_name(topic.name)
            for number, partition in topic.partitions.items():
                key = topic.id, number
                self._change(key, None, partition)
                yield key

    def apply(self, delta: TopicsDelta) -> Iterator[Key]:
        """Goes on to what the image is after `delta`, a step for each partition; between them it is of neither image."""
        for topic in delta.deleted.values():
            self._remove_name(topic.name)
            for number, partition in topic.partitions.items():
                key = topic.id, number
                self._change(key, partition, None)
                yield key
        for name in delta.created.values():
            self._add_name(name)
        for topic_id, changed in delta.changed.items():
            before = changed.image.partitions
            for number, partition in changed.partitions.items():
                key = topic_id, number
                self._change(key, before.get(number), partition)
                yield key

    def _add_name(self, name: str) -> None:
        if has_collision_characters(name):
            self._named_alike.setdefault(in_metrics(name), {})[name] = None

    def _remove_name(self, name: str) -> None:
        alike = self._named_alike.get(in_metrics(name))
        if alike is not None:
            alike.pop(name, None)
            if not alike:
                del self._named_alike[in_metrics(name)]

    def _change(self, key: Key, old: PartitionImage | None, new: PartitionImage | None) -> None:
        _move(self._in_sync, key, old.isr if old else (), new.isr if new else ())
        _move(self._eligible, key, old.elr if old else (), new.elr if new else ())
        _move(self._led, key, (old.leader,) if old else (), (new.leader,) if new else ())
        _mark(self.imbalanced, key, marked=new is not None and new.leader != new.preferred_leader)
        _mark(self.reassigning, key, marked=new is not None and bool(new.adding or new.removing))


def _move(places: dict[int, Keys], key: Key, old: Iterable[int], new: Iterable[int]) -> None:
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


def _mark(keys: Keys, key: Key, *, marked: bool) -> None:
    if marked:
        keys[key] = None
    else:
        keys.pop(key, None)


def in_slices(keys: Iterable[Key], size: int) -> Iterator[list[Key]]:
    """The keys of now, so many at a time; who works them off looks again at what each has become."""
    listed = list(keys)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
