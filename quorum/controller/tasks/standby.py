"""The index of the committed image on a standby controller, so that it can decide as soon as it is elected.

Building the index at the election would take a fifth of a second of CPU for 50,000 partitions, and seconds on a busy
machine, with no decisions meanwhile. In Kafka every controller replays into the tables of `QuorumController`; here the
index follows the image with a short delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import trio

from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP, PartitionIndex
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Changes within this time are left for the election: at most about ten thousand partitions, and usually none.
POLL_SECONDS = 1.0


class StandbyIndex:
    """An index that is lent to our epoch as leader, because that epoch's image runs ahead of the committed one. After
    the epoch it is moved back to the committed image.
    """

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._index: PartitionIndex | None = PartitionIndex()
        self._way: Iterator[None] = iter(())

    async def run(self) -> None:
        """Updates the index to the newest image periodically, until cancelled.

        The first update waits too, because a starting node has yet to read the changes of its partitions.
        """
        while True:
            await trio.sleep(POLL_SECONDS)
            await self._follow()

    async def acquire(self) -> PartitionIndex:
        """Brings the index to the present image and lends it."""
        index = self._index
        assert index is not None, "one epoch has ended before the next begins"
        while index.topics is not self._loader.image.topics:
            await self._follow()
        self._index = None
        return index

    def release(self, index: PartitionIndex) -> None:
        """Takes the index back; an index that was abandoned between two images is replaced by an empty one."""
        self._index = PartitionIndex() if index.topics is None else index

    async def _follow(self) -> None:
        while not self._step():
            await yield_to_loop()

    def _step(self) -> bool:
        """Does one turn's work of updating the index, which the next caller continues; returns whether it is up to
        date.
        """
        index, topics = self._index, self._loader.image.topics
        if index is None or index.topics is topics:
            return True
        if index.topics is not None:
            self._way = index.follow(topics)
        for _ in islice(self._way, PARTITIONS_PER_STEP):
            pass
        return index.topics is not None
