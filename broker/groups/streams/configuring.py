"""The topology of a group as it runs: its tasks, and its internal topics with their partition counts, or the reason why
it cannot run yet.

Source: Kafka's `InternalTopicManager`, `ConfiguredTopology`, `ConfiguredSubtopology`, `ConfiguredInternalTopic`,
`TopicConfigurationException`. The bound for tasks is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from trimaran.broker.groups.streams.java_order import hash_order
from trimaran.broker.groups.streams.partition_counts import (
    CountOf,
    IncorrectlyPartitioned,
    decided_counts,
    task_count,
)
from trimaran.broker.groups.streams.topology import Topology, invalid
from trimaran.broker.groups.topics import Topics
from trimaran.wire.identity import TopologyEpoch
from trimaran.wire.records.streams_groups import Subtopology, TopicInfo

# The maximum number of tasks of a topology: one member may get all, and its records must fit into a megabyte.
TASKS_MAX = 40_000

# The maximum number of topics that a message names.
_NAMED_MAX = 3


class Status(IntEnum):
    """The status of a group in heartbeats; the values are those of the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class GroupProblem(NamedTuple):
    """The reason why a topology cannot run yet, for clients."""

    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic. A replication factor of 0 means the default of the cluster."""

    name: str
    partitions: int
    replication_factor: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks; internal topics by name."""

    task_count: int
    source_topics: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: frozenset[str]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def all_sources(self) -> Iterable[str]:
        return (*sorted(self.source_topics), *sorted(self.repartition_sources))


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology for one state of the topics. `subtopologies` are sorted by id; they are None if source topics are
    missing, or topics have unsuitable partition counts. `missing`: the internal topics to create, by name.
    """

    epoch: TopologyEpoch
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: GroupProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configured(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Returns the topology for these topics.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY if it can never run, or has too many tasks.
    """

    def existing(name: str) -> int | None:
        topic = topics.find(name)
        return None if topic is None else topic.partition_count

    if missing := _missing_sources(topology, existing):
        detail = f"Source topics {_summary(missing)} are missing."
        problem = GroupProblem(Status.MISSING_SOURCE_TOPICS, detail)
        return ConfiguredTopology(topology.epoch, None, problem=problem)
    try:
        decided = decided_counts(topology, existing)
        subtopologies = {
            one: _subtopology(topology.subtopologies[one], existing, decided)
            for one in sorted(topology.subtopologies)
        }
        _check_tasks(subtopologies)
        to_create = _missing_internal(topology, subtopologies, existing)
    except IncorrectlyPartitioned as error:
        problem = GroupProblem(Status.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return ConfiguredTopology(topology.epoch, None, problem=problem)
    if not to_create:
        return ConfiguredTopology(topology.epoch, subtopologies)
    detail = f"Internal topics are missing: {_summary(list(to_create))}"
    problem = GroupProblem(Status.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, subtopologies, to_create, problem)


def _missing_sources(topology: Topology, existing: CountOf) -> list[str]:
    return sorted(
        {
            name
            for subtopology in topology.subtopologies.values()
            for name in subtopology.source_topics
            if existing(name) is None
        }
    )


def _subtopology(
    subtopology: Subtopology, existing: CountOf, decided: Mapping[str, int]
) -> ConfiguredSubtopology:
    def internal(given: Iterable[TopicInfo]) -> dict[str, InternalTopic]:
        return {topic.name: _internal(topic, decided) for topic in given}

    return ConfiguredSubtopology(
        task_count=task_count(subtopology, existing, decided),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sources=internal(subtopology.repartition_source_topics),
        repartition_sinks=frozenset(subtopology.repartition_sink_topics),
        changelogs=internal(subtopology.state_changelog_topics),
    )


def _internal(topic: TopicInfo, decided: Mapping[str, int]) -> InternalTopic:
    return InternalTopic(
        topic.name,
        topic.partitions or decided[topic.name],
        topic.replication_factor,
        {config.key: config.value for config in topic.topic_configs},
    )


def _check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    if sum(one.task_count for one in subtopologies.values()) > TASKS_MAX:
        raise invalid(f"A topology may have at most {TASKS_MAX} tasks.")


def _missing_internal(
    topology: Topology, subtopologies: Mapping[str, ConfiguredSubtopology], existing: CountOf
) -> dict[str, InternalTopic]:
    """Returns the internal topics that do not exist. Raises IncorrectlyPartitioned if one exists with another count."""
    wanted: dict[str, InternalTopic] = {}
    for subtopology in subtopologies.values():
        wanted |= subtopology.repartition_sources
        wanted |= subtopology.changelogs
    missing = {}
    # In Kafka's order, because the error names the first wrong topic.
    for name in hash_order(topology.required_topics):
        if (topic := wanted.get(name)) is None:
            continue
        count = existing(name)
        if count is None:
            missing[name] = topic
        elif count != topic.partitions:
            raise IncorrectlyPartitioned(
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {count}"
            )
    return dict(sorted(missing.items()))


def _summary(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} additional topics" if more > 0 else "")
