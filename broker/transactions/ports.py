"""The interfaces of the transaction coordinator to the rest of a broker, other than the partitions of its topic
(`trimaran.broker.coordination.ports`).
"""

from __future__ import annotations

from typing import Protocol

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import TopicPartition

TRANSACTION_TOPIC = "__transaction_state"


def has_partition(image: MetadataImage, key: TopicPartition) -> bool:
    """Returns whether the metadata has it: a partition that is missing was deleted, or the metadata is far behind."""
    topic = image.topics.by_name.get(key.topic)
    return topic is not None and key.partition in topic.partitions


class ProducerIds(Protocol):
    """New producer ids."""

    async def take(self) -> int:
        """Raises KafkaError: none can be had now."""
