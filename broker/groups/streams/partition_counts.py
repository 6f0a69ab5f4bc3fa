"""The partition counts of the internal topics of a topology.

Repartition topics get as many partitions as the largest source of the subtopologies that write to them, or as the
topology fixes; topics of a copartition group get equal counts; changelogs get one partition for each task.
Source: Kafka's `RepartitionTopics`, `CopartitionedTopicsEnforcer`, `ChangelogTopics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from trimaran.broker.groups.streams.java_order import hash_order
from trimaran.broker.groups.streams.topology import Topology, invalid, sources_of
from trimaran.wire.records.streams_groups import Subtopology, TopicInfo

CountOf = Callable[[str], int | None]
"""Returns the partition count of an existing topic."""


class IncorrectlyPartitioned(Exception):
    """The topics that must have equal partition counts have different ones. The text is for clients."""


def decided_counts(topology: Topology, existing: CountOf) -> dict[str, int]:
    """Returns the partition counts of all internal topics, whether they exist or not. All source topics exist.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY if no count can be determined for a repartition topic.
        IncorrectlyPartitioned: the counts of existing or fixed topics are not equal.
    """
    decided = _repartition_counts(topology, existing)
    _Copartitioning(topology, existing, decided).enforce()
    changelogs: dict[str, int] = {}
    for subtopology_id in hash_order(topology.subtopologies):
        subtopology = topology.subtopologies[subtopology_id]
        count = task_count(subtopology, existing, decided)
        changelogs.update((topic.name, count) for topic in subtopology.state_changelog_topics)
    return decided | changelogs


def task_count(subtopology: Subtopology, existing: CountOf, decided: Mapping[str, int]) -> int:
    """Returns the number of tasks: the largest partition count of a source."""
    return max(_count(name, existing, decided) for name in sources_of(subtopology))


def _count(name: str, existing: CountOf, decided: Mapping[str, int]) -> int:
    count = existing(name)
    return decided[name] if count is None else count


# -- repartition topics


def _repartition_counts(topology: Topology, existing: CountOf) -> dict[str, int]:
    """Follows the topology from its sources, in Kafka's order: a count may depend on the sources known so far."""
    in_order = [topology.subtopologies[one] for one in hash_order(topology.subtopologies)]
    readers: dict[str, list[str]] = {}
    for subtopology in in_order:
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(subtopology.subtopology_id)
    largest: dict[str, int] = {}  # the largest known source of each subtopology
    counts: dict[str, int] = {}

    def decide(name: str, count: int) -> None:
        counts[name] = count
        for reader in readers.get(name, ()):
            largest[reader] = max(largest.get(reader, 0), count)

    for subtopology in in_order:
        for name in subtopology.source_topics:
            count = existing(name)
            if count is not None:
                known = largest.get(subtopology.subtopology_id, 0)
                largest[subtopology.subtopology_id] = max(known, count)
    # The last declaration of a topic counts, so `decide` is called after all of them are read.
    fixed = {topic.name: topic.partitions for topic in _fixed(in_order)}
    for name, count in fixed.items():
        decide(name, count)
    left = in_order
    while left:
        unknown = [one for one in left if not _decide_sinks(one, largest, counts, decide)]
        if len(unknown) == len(left):
            raise invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        left = unknown
    if any(name not in counts for name in readers):
        raise invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return counts


def _fixed(subtopologies: Iterable[Subtopology]) -> Iterator[TopicInfo]:
    for subtopology in subtopologies:
        for topic in subtopology.repartition_source_topics:
            if topic.partitions:
                yield topic


def _decide_sinks(
    subtopology: Subtopology,
    largest: Mapping[str, int],
    counts: Mapping[str, int],
    decide: Callable[[str, int], None],
) -> bool:
    """Decides the counts of the topics that a subtopology writes to; returns whether all are known."""
    for name in subtopology.repartition_sink_topics:
        if name not in counts:
            count = largest.get(subtopology.subtopology_id)
            if count is None:
                return False
            decide(name, count)
    return True


# -- copartition groups


class _Copartitioning:
    """Adapts the counts of repartition topics to the topics that are read together with them."""

    def __init__(self, topology: Topology, existing: CountOf, decided: dict[str, int]) -> None:
        self._topology = topology
        self._existing = existing
        self._decided = decided
        self._fixed = {topic.name for topic in _fixed(topology.subtopologies.values())}
        self._internal = {
            topic.name
            for subtopology in topology.subtopologies.values()
            for topic in subtopology.repartition_source_topics
        }
        # Kafka compares all fixed topics of the topology, not only those of a group. Their counts never change.
        self._fixed_counts = {self._count_of(name) for name in self._fixed}

    def enforce(self) -> None:
        for subtopology_id in hash_order(self._topology.subtopologies):
            subtopology = self._topology.subtopologies[subtopology_id]
            for group in subtopology.copartition_groups:
                names = {subtopology.source_topics[index] for index in group.source_topics}
                names.update(
                    subtopology.repartition_source_topics[index].name
                    for index in group.repartition_source_topics
                )
                if names:
                    self._enforce(names)

    def _enforce(self, names: set[str]) -> None:
        internal = {name: self._count_of(name) for name in sorted(names & self._internal)}
        external = {name: self._count_of(name) for name in sorted(names - self._internal)}
        if external:
            count = _same(set(external.values()), external)
        elif self._fixed:
            count = _same(self._fixed_counts, internal)
        else:
            count = max(internal.values())
        for name, before in internal.items():
            if name in self._fixed and before != count:
                raise IncorrectlyPartitioned(
                    f"Number of partitions [{before}] of repartition topic [{name}] doesn't match number of partitions "
                    f"[{count}] of the source topic."
                )
            self._decided[name] = count

    def _count_of(self, name: str) -> int:
        return _count(name, self._existing, self._decided)


def _same(counts: set[int], named: Mapping[str, int]) -> int:
    """Returns the only count. Raises IncorrectlyPartitioned if there are several."""
    if len(counts) > 1:
        pairs = ", ".join(f"{name}={count}" for name, count in named.items())
        raise IncorrectlyPartitioned(
            f"Following topics do not have the same number of partitions: [{{{pairs}}}]"
        )
    return next(iter(counts))
