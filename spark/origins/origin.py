"""The interface of all origins of batches: partitions, bounds, and ranges that executors open. Pure, without Spark.

The driver asks an `Origin`; what it freezes for executors is a `Range`, which travels by pickle and finds its data by
itself. Origins: node directories (`trimaran.spark.origins.directories.directory_origin`), running brokers
(`trimaran.spark.origins.running_cluster.brokers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trimaran.log.batches.batch import BatchView
from trimaran.wire.identity import NodeId, Offset, TopicPartition

# The largest stored batch, and the largest record: a worker of 400 MB holds one, and some pieces of 24 MB.
BATCH_BYTES_MAX = 128 << 20


class DataUnreadable(Exception):
    """Data is damaged, gone, or shorter than it must be; the message names file or node, the place and what to do."""


class Located(NamedTuple):
    """A batch and where it lies: its position in its file, -1 where a broker sent it.

    Records below `log_start` were deleted after the range was planned; the batch in which it lies is kept whole.
    """

    position: int
    batch: BatchView
    log_start: Offset = Offset(0)


@dataclass(frozen=True, slots=True)
class Reading:
    """How ranges are read.

    Args:
        include_control: transaction markers, leader changes … are given, too.
        verify_crc: a wrong CRC is damage; without it the batch is given as it is.
        committed: batches of transactions that were aborted are left out.
        fail_on_data_loss: what is damaged or gone raises; without it, it is warned of and left out.
        batch_bytes_max: a batch that is stored in more, or a record that expands to more, cannot be given.
        timestamp_min_ms: batches that hold only earlier records may be left out.
    """

    include_control: bool = False
    verify_crc: bool = True
    committed: bool = False
    fail_on_data_loss: bool = True
    timestamp_min_ms: int | None = None
    batch_bytes_max: int = BATCH_BYTES_MAX


DEFAULT_READING = Reading()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets [start, end) of one partition: from the beginning of its log up to the high watermark, the last stable
    offset or the log's end, as the options say.

    `log_end` is the end of the log, committed or not, None if unknown. A later call may find a lower `end`,
    as another replica's high watermark is older; only a log that was cut ends lower.
    """

    start: Offset
    end: Offset
    log_end: Offset | None = field(default=None, compare=False)


class Span(NamedTuple):
    """The offsets [start, end) of a partition that are to be read."""

    start: Offset
    end: Offset


class Range(Protocol):
    """Some offsets of one partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def node_id(self) -> NodeId: ...
    @property
    def start_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def log_start(self) -> Offset:
        """The beginning of the partition's log when it was planned; records below it are deleted."""

    @property
    def log_dir(self) -> str | None: ...
    @property
    def name(self) -> str:
        """The file, or the node and partition, for errors and the column `file`."""

    def batches(self, reading: Reading) -> Iterator[Located]:
        """The batches that hold any of the offsets, in order. Raises DataUnreadable."""


class Origin(Protocol):
    """A cluster's partitions as this origin has them."""

    def partitions(self) -> Sequence[TopicPartition]:
        """All that there are, internal topics included."""

    def bounds(self, wanted: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Raises DataUnreadable when one of them cannot be told."""

    def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Offset | None]:
        """The first offset whose record is of that time (ms) or later; None when there is none."""

    def tasks(
        self,
        spans: Mapping[TopicPartition, Span],
        split_bytes: int | None,
        tasks_min: int,
    ) -> Sequence[tuple[Range, ...]]:
        """Ranges that together hold the offsets [start, end) of each partition, grouped for executors.

        Args:
            split_bytes: the bytes of a task, if the origin knows sizes; None leaves it to the origin.
            tasks_min: the fewest tasks, if there is enough to read.
        """
