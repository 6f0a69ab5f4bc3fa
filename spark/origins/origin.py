"""The interface of all origins of batches: partitions, bounds, and ranges that executors open. Pure, without Spark.

The driver uses an `Origin`; executors get a `Range`, which travels by pickle and finds its data by itself. Origins:
node directories (`trimaran.spark.origins.directories.directory_origin`), running brokers
(`trimaran.spark.origins.running_cluster.brokers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from trimaran.log.batches.batch import BatchView
from trimaran.wire.identity import NodeId, Offset, TopicPartition

# The largest stored batch, and the largest record: a worker of 400 MB holds one of them, and some pieces of 24 MB.
BATCH_BYTES_MAX = 128 << 20
NO_POSITION = -1


class DataUnreadable(Exception):
    """Data is damaged, missing or too short; the message names the file or node, the place and the remedy."""


class Located(NamedTuple):
    """A batch and its position in its file, `NO_POSITION` if it came from a broker.

    Records below `log_start` were deleted after the range was planned; the batch that contains it is kept whole.
    """

    position: int
    batch: BatchView
    log_start: Offset = Offset(0)


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings for reading ranges.

    Args:
        include_control: transaction markers, leader changes and other control batches are yielded, too.
        verify_crc: a wrong CRC is damage; otherwise the batch is yielded as it is.
        committed: batches of aborted transactions are omitted.
        fail_on_data_loss: damaged or missing data raises; otherwise it causes a warning and is omitted.
        batch_bytes_max: a larger stored batch, or a record that expands to more, cannot be read.
    """

    include_control: bool = False
    verify_crc: bool = True
    committed: bool = False
    fail_on_data_loss: bool = True
    batch_bytes_max: int = BATCH_BYTES_MAX


DEFAULT_READING = Reading()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets [start, end) of one partition: from the beginning of its log up to the high watermark, the last stable
    offset or the log's end, according to the options.

    `log_end` is the end of the log, committed or not, None if unknown. A later call may find a lower `end`, since the
    high watermark of another replica may be older; `log_end` is lower only if the log was truncated.
    """

    start: Offset
    end: Offset
    log_end: Offset | None = field(default=None, compare=False)


class Span(NamedTuple):
    """The offsets [start, end) of a partition that are to be read."""

    start: Offset
    end: Offset


class Part(NamedTuple):
    """Offsets [start, end) of a partition, of which only records with times from `min_ms` to `max_ms` are wanted:
    others may be omitted. None means no bound.
    """

    start: Offset
    end: Offset
    min_ms: int | None = None
    max_ms: int | None = None


class Range(Protocol):
    """Some offsets of one partition."""

    @property
    def key(self) -> TopicPartition: ...
    @property
    def node_id(self) -> NodeId: ...
    @property
    def start_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def log_start(self) -> Offset:
        """The start of the partition's log when the range was planned; records below it are deleted."""

    @property
    def log_dir(self) -> str | None: ...
    @property
    def name(self) -> str:
        """The name of the file, or of node and partition, for errors and the column `file`."""

    def batches(self, reading: Reading) -> Iterator[Located]:
        """Yields the batches that contain any of the offsets, in order. Raises DataUnreadable."""


class Origin(Protocol):
    """The partitions of a cluster in this origin."""

    def partitions(self) -> Sequence[TopicPartition]:
        """Returns all partitions, including those of internal topics."""

    def bounds(self, wanted: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Returns the bounds of partitions. Raises DataUnreadable if one cannot be determined."""

    def topic_ids(self) -> Mapping[str, str]:
        """Returns the known ids of the topics whose bounds were looked up."""

    def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Offset | None]:
        """Returns the first offset whose record has that time (ms) or a later one; None if there is none."""

    def tasks(
        self,
        parts: Mapping[TopicPartition, Sequence[Part]],
        split_bytes: int | None,
        tasks_min: int,
    ) -> Sequence[Iterable[Range]]:
        """Returns ranges that together contain the wanted records of all parts, grouped for executors.

        Args:
            split_bytes: the bytes of a task; None leaves it to the origin.
            tasks_min: the fewest tasks, if there is enough to read.
        """

    def summary(self, tasks: Sequence[Any]) -> str:
        """Returns a readable text about the share of the partitions that the ranges of some tasks read."""
