"""The broker's view of the cluster: the newest applied image, and a way to wait for a later one.

Source: Kafka's `KRaftMetadataCache`. Handlers read it freely: an image never changes.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from quorum.metadata.image import MetadataImage


class BrokerMetadata:
    """Holds the image that the partitions of this broker have been brought to."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._changed = trio.Event()

    def set(self, image: MetadataImage) -> None:
        """Shows `image`; called after every publisher has applied it."""
        self.image = image
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage:
        """Returns the first image seen that satisfies `predicate`; bound it with a cancel scope."""
        while not predicate(self.image):
            await self._changed.wait()
        return self.image

    async def wait_change(self) -> None:
        """Returns when the next image is set."""
        await self._changed.wait()
