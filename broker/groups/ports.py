"""The interfaces of the group coordinator to the rest of a broker, besides the partitions of its topic
(`trimaran.broker.coordination.ports`).

Not implemented: topic creation and forwarding, which only the handlers of the coordinator use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trimaran.quorum.metadata.image import MetadataImage

OFFSETS_TOPIC = "__consumer_offsets"

KnowsTopic = Callable[[str, bytes], bool]
"""Whether a topic of this name and id is in the newest metadata; of an id of zeros, whether one of this name is."""


class Metadata(Protocol):
    """The newest applied metadata."""

    @property
    def image(self) -> MetadataImage: ...
