"""A controller's metrics of the cluster, from the committed metadata. Source: `ControllerMetadataMetrics` of
Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimaran.metrics.families import Families, Table, families, gauge
from trimaran.quorum.metadata.image import NO_LEADER, MetadataImage, PartitionImage

# The number of partitions that are counted in one turn of the loop, which takes about a millisecond.
_PER_TURN = 2_000

_CONTROLLER = "kafka_controller_kafkacontroller"
CLUSTER_METRICS: Table[Counter[str]] = (
    gauge(
        f"{_CONTROLLER}_activebrokercount",
        "Brokers that are registered and not fenced.",
        lambda c: c["active_brokers"],
    ),
    gauge(
        f"{_CONTROLLER}_fencedbrokercount",
        "Brokers that are registered and fenced.",
        lambda c: c["fenced_brokers"],
    ),
    gauge(f"{_CONTROLLER}_globaltopiccount", "Topics.", lambda c: c["topics"]),
    gauge(f"{_CONTROLLER}_globalpartitioncount", "Partitions.", lambda c: c["partitions"]),
    gauge(
        f"{_CONTROLLER}_offlinepartitionscount",
        "Partitions without a leader.",
        lambda c: c["offline_partitions"],
    ),
    gauge(
        f"{_CONTROLLER}_preferredreplicaimbalancecount",
        "Partitions not led by their first replica.",
        lambda c: c["imbalanced_partitions"],
    ),
)


class ClusterCounts:
    """The counts of the cluster; counted again only when the metadata has changed."""

    def __init__(self) -> None:
        self._topics: object = None
        self._count: Counter[str] = Counter()

    def metrics(self, image: MetadataImage) -> Families:
        if self._topics is not image.topics:
            count: Counter[str] = Counter()
            yield from _count_partitions(image, count)
            self._topics, self._count = image.topics, count
        fenced = sum(broker.fenced for broker in image.cluster.brokers.values())
        self._count["fenced_brokers"] = fenced
        self._count["active_brokers"] = len(image.cluster.brokers) - fenced
        yield from families(CLUSTER_METRICS, self._count)


def _count_partitions(image: MetadataImage, count: Counter[str]) -> Iterator[None]:
    count["topics"] = len(image.topics.by_name)
    since = 0
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            _count_partition(partition, count)
        since += len(topic.partitions)
        if since >= _PER_TURN:
            since = 0
            yield None


def _count_partition(partition: PartitionImage, count: Counter[str]) -> None:
    count["partitions"] += 1
    count["offline_partitions"] += partition.leader == NO_LEADER
    count["imbalanced_partitions"] += partition.leader != partition.preferred_leader
