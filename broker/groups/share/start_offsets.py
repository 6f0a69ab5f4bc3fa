"""The start offsets of share partitions that heartbeats begin to initialize."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trimaran.broker.groups.share.state_partitions import ByTopic
from trimaran.wire.identity import Offset, TopicIdPartition


@dataclass(frozen=True, eq=False)
class NewOffsets(Mapping[TopicIdPartition, Offset | None]):
    """The start offsets of partitions without a state: 0 for partitions in `added`, None (`share.auto.offset.reset`)
    for all others. A topic may have 100,000 partitions, so their keys are made one by one.
    """

    partitions: Mapping[bytes, frozenset[int]]
    added: Mapping[bytes, frozenset[int]]

    def __iter__(self) -> Iterator[TopicIdPartition]:
        for topic_id, mine in self.partitions.items():
            for partition in sorted(mine):
                yield TopicIdPartition(topic_id, partition)

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def __getitem__(self, key: TopicIdPartition) -> Offset | None:
        if key.partition not in self.partitions[key.topic_id]:
            raise KeyError(key)
        return Offset(0) if key.partition in self.added.get(key.topic_id, ()) else None

    def among(self, topics: ByTopic) -> NewOffsets:
        """Returns the offsets of those partitions that are in `topics`."""
        left = {
            topic_id: mine & topics[topic_id].partitions
            for topic_id, mine in self.partitions.items()
            if topic_id in topics
        }
        return replace(self, partitions={topic_id: mine for topic_id, mine in left.items() if mine})
