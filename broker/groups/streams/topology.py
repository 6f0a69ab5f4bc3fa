"""The topology of a streams group: its subtopologies, and the topics that connect them.

Source: Kafka's `StreamsTopology`, `StreamsCoordinatorRecordHelpers.convertToStreamsGroupTopologyRecord`. The bounds are
ours: Kafka has none, and answers UNKNOWN_SERVER_ERROR to invalid indexes and ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from trimaran.broker.groups.streams.java_order import hash_order
from trimaran.node.text.memory import texts_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopologyEpoch
from trimaran.wire.messages import streams_group_heartbeat as heartbeat
from trimaran.wire.records.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

# The maximum size of a topology: its names, with their configs, must fit into a record of a megabyte.
TOPOLOGY_BYTES_MAX = 512 << 10
# The maximum number of subtopologies, and of topics, configs and indexes in all of them; internal topics count twice.
SUBTOPOLOGIES_MAX = 1_000
TOPOLOGY_ENTRIES_MAX = 7_000
# The memory of an entry without its texts.
ENTRY_BYTES = 8


class Topology:
    """A topology as given by its record, which must not change."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self.epoch: TopologyEpoch = value.epoch
        self.subtopologies = {one.subtopology_id: one for one in value.subtopologies}

    def __eq__(self, other: object) -> bool:
        """The order of the subtopologies does not matter; the order of their topics does."""
        return (
            isinstance(other, Topology)
            and self.epoch == other.epoch
            and self.subtopologies.keys() == other.subtopologies.keys()
            and all(
                _content(one) == _content(other.subtopologies[name])
                for name, one in self.subtopologies.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def subtopology_of_source(self) -> dict[str, str]:
        """Subtopology ids by source topic, also of repartition topics."""
        return {
            name: subtopology.subtopology_id
            for subtopology in self.subtopologies.values()
            for name in sources_of(subtopology)
        }

    @cached_property
    def required_topics(self) -> tuple[str, ...]:
        """The topics that must exist, each once: sources and changelogs. A sink is a source of another subtopology."""
        names = dict.fromkeys(
            name
            for one in hash_order(self.subtopologies)
            for name in (
                *sources_of(self.subtopologies[one]),
                *(topic.name for topic in self.subtopologies[one].state_changelog_topics),
            )
        )
        return tuple(names)

    @cached_property
    def bytes(self) -> int:
        """The approximate size in memory, in bytes."""
        texts = _texts(self.value.subtopologies)
        return texts_bytes(texts) + ENTRY_BYTES * len(texts)


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """Yields the names of all source topics, then those of repartition topics."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_value(topology: heartbeat.Topology) -> StreamsGroupTopologyValue:
    """Converts the topology of a request to that of a record."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=list(one.source_topics),
                source_topic_regex=list(one.source_topic_regex),
                state_changelog_topics=_topics(one.state_changelog_topics),
                repartition_sink_topics=list(one.repartition_sink_topics),
                repartition_source_topics=_topics(one.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in one.copartition_groups
                ],
            )
            for one in topology.subtopologies
        ],
    )


def _topics(topics: Iterable[heartbeat.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs
            ],
        )
        for topic in topics
    ]


def check_topology(topology: heartbeat.Topology) -> None:
    """Raises KafkaError STREAMS_INVALID_TOPOLOGY for a topology that can never run, or that exceeds a bound."""
    if topology.epoch < 0:
        raise invalid("The epoch of a topology must not be negative.")
    if len(topology.subtopologies) > SUBTOPOLOGIES_MAX:
        raise invalid(f"A topology may have at most {SUBTOPOLOGIES_MAX} subtopologies.")
    _check_size(topology)
    ids = [one.subtopology_id for one in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise invalid("Two subtopologies have the same id.")
    for one in topology.subtopologies:
        if not one.source_topics and not one.repartition_source_topics:
            raise invalid(f"No source topics found for subtopology {one.subtopology_id}")
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            if topic.partitions < 0:
                raise invalid(f"The partition count of topic {topic.name} is negative.")
        for group in one.copartition_groups:
            _check_indexes(group.source_topics, len(one.source_topics))
            _check_indexes(group.repartition_source_topics, len(one.repartition_source_topics))


def _check_size(topology: heartbeat.Topology) -> None:
    texts = _texts(topology.subtopologies)
    count = len(texts)
    size = texts_bytes(texts) + ENTRY_BYTES * count
    for one in topology.subtopologies:
        # Each step of the group visits internal topics more often than other names.
        count += len(one.repartition_source_topics) + len(one.state_changelog_topics)
        for group in one.copartition_groups:
            count += 1 + len(group.source_topics) + len(group.repartition_source_topics)
    if size > TOPOLOGY_BYTES_MAX or count > TOPOLOGY_ENTRIES_MAX:
        raise invalid(
            f"A topology may have at most {TOPOLOGY_ENTRIES_MAX} names of topics and configs, and "
            f"{TOPOLOGY_BYTES_MAX} bytes."
        )


def _check_indexes(indexes: Iterable[int], count: int) -> None:
    if not all(0 <= index < count for index in indexes):
        raise invalid("A copartition group names a topic that the subtopology does not have.")


def _texts(subtopologies: Iterable[heartbeat.Subtopology | Subtopology]) -> list[str]:
    """Returns all names, and the keys and values of configs, with few calls: there may be thousands."""
    texts: list[str] = []
    for one in subtopologies:
        texts.append(one.subtopology_id)
        texts += one.source_topics
        texts += one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            texts.append(topic.name)
            for config in topic.topic_configs:
                texts += (config.key, config.value)
    return texts


def _content(one: Subtopology) -> tuple[object, ...]:
    """Returns what makes a subtopology equal to another; comparing structures takes many more calls."""
    return (
        one.source_topics,
        one.source_topic_regex,
        [*map(_topic_content, one.state_changelog_topics)],
        one.repartition_sink_topics,
        [*map(_topic_content, one.repartition_source_topics)],
        [
            (group.source_topics, group.source_topic_regex, group.repartition_source_topics)
            for group in one.copartition_groups
        ],
    )


def _topic_content(topic: TopicInfo) -> tuple[object, ...]:
    configs = [(config.key, config.value) for config in topic.topic_configs]
    return topic.name, topic.partitions, topic.replication_factor, configs


def invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
