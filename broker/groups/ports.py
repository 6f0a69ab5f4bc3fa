"""What the group coordinator needs of the rest of a broker, and what it listens to.

`broker.partitions.leader.LeaderEpoch` is an `OffsetsPartition`; `broker.partitions.registry.Partitions.listen` takes a
`LeadershipListener`. Left out: topic creation and forwarding, which only the handlers of the coordinator use.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from log.batches.batch import BatchView
from log.segments.slices import LogSlice
from node.runtime.watermark import Watermark
from quorum.metadata.image import MetadataImage

OFFSETS_TOPIC = "__consumer_offsets"


class AppendInfo(Protocol):
    """Where an append went; offsets are inclusive."""

    @property
    def base_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


class OffsetsLog(Protocol):
    """The part of `log.partitions.partition_log.PartitionLog` that loading needs, on the loop; slices may be read in a thread."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def read(
        self, offset: int, max_bytes: int, *, upto_offset: int, min_one: bool
    ) -> LogSlice | None: ...

    def storage(self, what: str) -> AbstractContextManager[None]: ...


class OffsetsPartition(Protocol):
    """One leadership epoch of a partition of `__consumer_offsets`."""

    @property
    def epoch(self) -> int: ...

    @property
    def high_watermark(self) -> Watermark:
        """Closed when the epoch ends; what it has passed is on the disks of the whole ISR."""

    @property
    def log(self) -> OffsetsLog: ...

    def append(self, records: memoryview, views: Sequence[BatchView]) -> AppendInfo:
        """Appends as acks=all does; `records` is writable.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, …; nothing was written.
        """


class LeadershipListener(Protocol):
    """Hears of this broker's leadership of the partitions of one topic.

    Plain calls, in order: `ended` of an epoch comes before `began` of the next of the same partition.
    """

    def began(self, partition_index: int, leader: OffsetsPartition) -> None: ...

    def ended(self, partition_index: int, leader_epoch: int) -> None: ...


class Metadata(Protocol):
    """The newest applied metadata."""

    @property
    def image(self) -> MetadataImage: ...
