"""The interfaces between a coordinator and the partitions of its topic, and the metadata.

`trimaran.broker.partitions.leader.PartitionLeader` is a `CoordinatorPartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from trimaran.log.batches.batch import BatchView
from trimaran.log.partitions.partition_log import AppendInfo, PartitionLog
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import LeaderEpoch, Offset


class CoordinatorPartition(Protocol):
    """One leader epoch of a partition of a coordinator's topic."""

    @property
    def epoch(self) -> LeaderEpoch: ...

    @property
    def high_watermark(self) -> Watermark:
        """The high watermark, closed when the epoch ends; the whole ISR has everything below it on disk."""

    @property
    def log(self) -> PartitionLog:
        """The log; a thread may read slices of it."""

    def append(
        self, records: memoryview, views: Sequence[BatchView], *, is_awaited: bool = True
    ) -> AppendInfo:
        """Appends records as Produce does with acks=all; `records` is writable. No request waits for the commit of an
        append that is not `is_awaited`, unless `expedite` is called.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, …; nothing was written.
        """

    def expedite(self) -> None:
        """Notes that a request now waits for the commit of all appended records."""

    def delete_records_before(self, offset: Offset) -> Offset:
        """Advances the log start to `offset`; returns the new start.

        Raises:
            KafkaError: nothing was deleted.
        """


class Metadata(Protocol):
    """The newest metadata that this broker has applied."""

    @property
    def image(self) -> MetadataImage: ...

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage: ...
