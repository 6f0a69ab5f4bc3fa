"""The index of the committed image on a controller that another leads, so that it decides as soon as it is elected.

If it were built only then, 50,000 partitions would take a fifth of a second of a processor, and seconds of a busy one,
without any decision meanwhile. In Kafka every controller replays into the tables of `QuorumController`; here they
follow the image a little later.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import trio

from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP, PartitionIndex
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Changes within this time are left for the moment of the election: some ten thousand partitions at the most, and mostly
# none.
POLL_SECONDS = 1.0


class StandbyIndex:
    """An index that is lent to our epoch as leader, since the image of that epoch runs ahead of the committed one. When
    it comes back it is led back from there.
    """

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._index: PartitionIndex | None = PartitionIndex()
        self._way: Iterator[None] = iter(())

    async def run(self) -> None:
        """Follows the image of the moment, from time to time, until cancelled; what changes meanwhile waits for the
        next time. Not at once: a node that starts has yet to read what has become of its partitions.
        """
        while True:
            await trio.sleep(POLL_SECONDS)
            await self._follow()

    async def acquire(self) -> PartitionIndex:
        """That of the image of this moment; what else there is to do at this moment must not wait."""
        index = self._index
        assert index is not None, "one epoch has ended before the next begins"
        while index.topics is not self._loader.image.topics:
            await self._follow()
        self._index = None
        return index

    def release(self, index: PartitionIndex) -> None:
        """One that was left on its way to another image is of neither."""
        self._index = PartitionIndex() if index.topics is None else index

    async def _follow(self) -> None:
        while not self._step():
            await yield_to_loop()

    def _step(self) -> bool:
        """One turn's work on the way to an image, which whoever comes next goes on with; whether it is at its end."""
        index, topics = self._index, self._loader.image.topics
        if index is None or index.topics is topics:
            return True
        if index.topics is not None:
            self._way = index.follow(topics)
        for _ in islice(self._way, PARTITIONS_PER_STEP):
            pass
        return index.topics is not None
