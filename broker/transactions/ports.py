"""The interfaces of the transaction coordinator to the rest of a broker, other than the partitions of its topic
(`trimaran.broker.coordination.ports`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trimaran.quorum.metadata.image import MetadataImage

TRANSACTION_TOPIC = "__transaction_state"


def has_partition(image: MetadataImage, topic: str, index: int) -> bool:
    """A partition that is missing in the metadata was deleted, or the metadata is far behind."""
    found = image.topics.by_name.get(topic)
    return found is not None and index in found.partitions


class Metadata(Protocol):
    """The newest applied metadata."""

    @property
    def image(self) -> MetadataImage: ...

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage: ...


class ProducerIds(Protocol):
    """New producer ids."""

    async def take(self) -> int:
        """Raises KafkaError: none can be had now."""
