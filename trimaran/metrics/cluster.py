"""A controller's metrics of the cluster, from the committed metadata. Source: `ControllerMetadataMetrics` of
Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimaran.metrics.families import Families, gauge
from trimaran.quorum.metadata.image import NO_LEADER, MetadataImage, PartitionImage

# Partitions between two turns of the loop: a millisecond's worth.
_PER_TURN = 2_000

_COUNTS = (
    ("activebrokercount", "Brokers that are registered and not fenced."),
    ("fencedbrokercount", "Brokers that are registered and fenced."),
    ("globaltopiccount", "Topics."),
    ("globalpartitioncount", "Partitions."),
    ("offlinepartitionscount", "Partitions without a leader."),
    ("preferredreplicaimbalancecount", "Partitions not led by their first replica."),
)


class ClusterCounts:
    """Counts again only when the metadata has changed."""

    def __init__(self) -> None:
        self._topics: object = None
        self._count: Counter[str] = Counter()

    def metrics(self, image: MetadataImage) -> Families:
        if self._topics is not image.topics:
            count: Counter[str] = Counter()
            yield from _count_partitions(image, count)
            self._topics, self._count = image.topics, count
        fenced = sum(broker.fenced for broker in image.cluster.brokers.values())
        self._count["fencedbrokercount"] = fenced
        self._count["activebrokercount"] = len(image.cluster.brokers) - fenced
        for name, doc in _COUNTS:
            yield gauge(f"kafka_controller_kafkacontroller_{name}", doc, self._count[name])


def _count_partitions(image: MetadataImage, count: Counter[str]) -> Iterator[None]:
    count["globaltopiccount"] = len(image.topics.by_name)
    since = 0
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            _count_partition(partition, count)
        since += len(topic.partitions)
        if since >= _PER_TURN:
            since = 0
            yield None


def _count_partition(partition: PartitionImage, count: Counter[str]) -> None:
    count["globalpartitioncount"] += 1
    count["offlinepartitionscount"] += partition.leader == NO_LEADER
    count["preferredreplicaimbalancecount"] += partition.leader != partition.preferred_leader
