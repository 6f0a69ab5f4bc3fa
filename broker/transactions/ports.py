"""The interfaces between the transaction coordinator and the rest of a broker, except for the partitions of its topic
(`trimaran.broker.coordination.ports`).
"""

from __future__ import annotations

from typing import Protocol

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import TopicPartition

TRANSACTION_TOPIC = "__transaction_state"


def has_partition(image: MetadataImage, key: TopicPartition) -> bool:
    """Returns whether the metadata has the partition: a missing one has been deleted, or the metadata lags behind."""
    topic = image.topics.by_name.get(key.topic)
    return topic is not None and key.partition in topic.partitions


class ProducerIds(Protocol):
    """A source of new producer ids."""

    async def take(self) -> int:
        """Returns a new id. Raises KafkaError if none can be obtained now."""
