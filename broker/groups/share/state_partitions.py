"""The share partitions of a group by the progress of their state: initializing, initialized, deleting.

Only initialized partitions are assigned. Each function returns new values and changes nothing. Source: Kafka's
`ShareGroupStatePartitionMetadataInfo`, `combineInitMaps` and the methods around it of `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from trimaran.broker.groups.memory import NAME_BYTES, PARTITION_BYTES
from trimaran.broker.share_state.changes import PartitionsByTopic
from trimaran.node.text.memory import texts_bytes
from trimaran.wire.records.share_groups import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

# The maximum number of topics with states: the record with all of them is written in one step, 10 µs for each.
TOPICS_MAX = 3_000

_PARTITIONS = attrgetter("partitions")


class TopicState(NamedTuple):
    """Partitions of a topic whose state has made the same progress."""

    name: str
    partitions: frozenset[int]


ByTopic = Mapping[bytes, TopicState]
"""States by topic id; each topic has at least one partition."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The content of one record of type 15. `deleting` has the names of topics by their ids."""

    initializing: ByTopic = field(default_factory=dict)
    initialized: ByTopic = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def topic_ids(self) -> set[bytes]:
        return {*self.initializing, *self.initialized, *self.deleting}

    @property
    def held_bytes(self) -> int:
        """The approximate size in memory, in bytes."""
        topics = [*self.initializing.values(), *self.initialized.values()]
        names = [topic.name for topic in topics]
        names += self.deleting.values()
        partitions = sum(map(len, map(_PARTITIONS, topics)))
        return PARTITION_BYTES * partitions + NAME_BYTES * len(names) + texts_bytes(names)

    # -- changes

    def beginning(self, topics: ByTopic) -> StatePartitions:
        """Marks partitions whose initialization begins; their topics are not deleted any more."""
        initializing = joined(self.initializing, topics)
        deleting = {key: name for key, name in self.deleting.items() if key not in initializing}
        return replace(self, initializing=initializing, deleting=deleting)

    def finished(self, done: PartitionsByTopic, failed: PartitionsByTopic) -> StatePartitions:
        """Marks the outcome of an initialization. Partitions that are not initializing any more remain unchanged.
        Failed partitions may have a state nevertheless, so they stay initializing unless they were initialized before.
        """
        moved = _among(done, self.initializing)
        left = without(self.initializing, moved)
        return replace(
            self,
            initializing=without(left, _among(failed, self.initialized)),
            initialized=joined(self.initialized, moved),
        )

    def deleting_topics(self, topics: Mapping[bytes, str]) -> StatePartitions:
        """Marks initialized topics whose states will be deleted."""
        left = {key: topic for key, topic in self.initialized.items() if key not in topics}
        return replace(self, initialized=left, deleting={**self.deleting, **topics})

    def deleted(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Removes topics from `deleting` whose states have been deleted."""
        left = {key: name for key, name in self.deleting.items() if key not in topic_ids}
        return replace(self, deleting=left)

    def deleting_all(self) -> StatePartitions:
        """Marks all states as deleting, because the group will be deleted."""
        known = joined(self.initialized, self.initializing)
        names = {key: topic.name for key, topic in known.items()}
        return StatePartitions(deleting={**self.deleting, **names})

    def without_topics(self, topic_ids: Collection[bytes]) -> StatePartitions:
        """Removes deleted topics."""
        initializing, initialized = (
            {key: topic for key, topic in topics.items() if key not in topic_ids}
            for topics in (self.initializing, self.initialized)
        )
        return StatePartitions(initializing, initialized, self.deleted(topic_ids).deleting)

    # -- the record

    @staticmethod
    def of(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
        return StatePartitions(
            _by_topic(value.initializing_topics),
            _by_topic(value.initialized_topics),
            {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        )

    def value(self) -> ShareGroupStatePartitionMetadataValue:
        """Returns the record's value, with the topics in order of their names."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(self.initializing),
            initialized_topics=_infos(self.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(self.deleting.items(), key=_name_and_id)
            ],
        )


NO_STATES = StatePartitions()


def joined(topics: ByTopic, more: ByTopic) -> ByTopic:
    """Returns the partitions of `topics` and of `more`."""
    found = dict(topics)
    for topic_id, (name, partitions) in more.items():
        known = found[topic_id].partitions if topic_id in found else frozenset()
        if partitions:
            found[topic_id] = TopicState(name, known | partitions)
    return found


def without(topics: ByTopic, less: ByTopic) -> ByTopic:
    """Returns the partitions of `topics` that are not in `less`."""
    found: dict[bytes, TopicState] = {}
    for topic_id, (name, partitions) in topics.items():
        left = partitions - less[topic_id].partitions if topic_id in less else partitions
        if left:
            found[topic_id] = TopicState(name, left)
    return found


def _among(partitions: PartitionsByTopic, topics: ByTopic) -> ByTopic:
    """Returns those of `partitions` that are in `topics`; a topic may be left without partitions."""
    return {
        topic_id: TopicState(topics[topic_id].name, topics[topic_id].partitions & mine)
        for topic_id, mine in partitions.items()
        if topic_id in topics
    }


def _by_topic(infos: Iterable[TopicPartitionsInfo]) -> ByTopic:
    return {
        info.topic_id: TopicState(info.topic_name, frozenset(info.partitions))
        for info in infos
        if info.partitions
    }


def _infos(topics: ByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, (name, partitions) in sorted(topics.items(), key=_state_name_and_id)
    ]


def _name_and_id(item: tuple[bytes, str]) -> tuple[str, bytes]:
    return item[1], item[0]


def _state_name_and_id(item: tuple[bytes, TopicState]) -> tuple[str, bytes]:
    return item[1].name, item[0]
