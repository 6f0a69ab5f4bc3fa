"""The interfaces of a coordinator to the partitions of its topic, and to the metadata.

`trimaran.broker.partitions.leader.PartitionLeader` is a `CoordinatorPartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from trimaran.log.batches.batch import BatchView
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.slices import LogSlice
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import Offset


class CoordinatorLog(Protocol):
    """The part of `trimaran.log.partitions.partition_log.PartitionLog` that is used, on the loop.

    Slices may be read in a thread.
    """

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def producers(self) -> ProducerState: ...

    def read(
        self, offset: Offset, max_bytes: int, *, upto_offset: Offset, min_one: bool
    ) -> LogSlice | None: ...

    def storage(self, what: str) -> AbstractContextManager[None]: ...


class CoordinatorPartition(Protocol):
    """One leader epoch of a partition of a coordinator's topic."""

    @property
    def epoch(self) -> int: ...

    @property
    def high_watermark(self) -> Watermark:
        """Closed when the epoch ends; what it has passed is on the disks of the whole ISR."""

    @property
    def log(self) -> CoordinatorLog: ...

    def append(
        self, records: memoryview, views: Sequence[BatchView], *, is_awaited: bool = True
    ) -> AppendInfo:
        """Appends as acks=all does; `records` is writable. No request waits for the commit of an append that is not
        `is_awaited`, unless `expedite` says so.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, …; nothing was written.
        """

    def expedite(self) -> None:
        """Says that a request waits for the commit of all that was appended."""


class Metadata(Protocol):
    """The newest applied metadata."""

    @property
    def image(self) -> MetadataImage: ...

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage: ...
