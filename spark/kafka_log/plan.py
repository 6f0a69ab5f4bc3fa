"""Plans a read on the driver: partitions and bounds from the origin, and ranges for the executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten

from trimaran.spark.data_source.limits import Resolving
from trimaran.spark.data_source.offset_filter import EVERYTHING, OffsetFilter
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.segments import SegmentTask, segment_tasks
from trimaran.spark.options import TopicsWanted
from trimaran.spark.origins.directories.directory_origin import SHARE_BYTES_MIN, DirectoryOrigin
from trimaran.spark.origins.origin import Bounds, DataUnreadable, Origin, Range, Span
from trimaran.spark.origins.running_cluster.brokers import BrokerOrigin
from trimaran.wire.identity import TopicPartition

Task = tuple[Range, ...]
FOUND_LETTERS_MAX = 300  # the number of topics that an error names


def open_origin(options: LogOptions, filters: OffsetFilter = EVERYTHING) -> Origin:
    """Returns the origin that the options name. Raises DataUnreadable, OptionError."""
    if options.cluster is not None:
        return BrokerOrigin(options.cluster, committed=options.committed)
    assert options.directories is not None
    return DirectoryOrigin(
        options.directories, lambda key: key in options.topics and filters.admits(key)
    )


def wanted_partitions(origin: Origin, topics: TopicsWanted) -> list[TopicPartition]:
    """Returns the partitions of the origin that the user chose.

    Raises:
        DataUnreadable: a topic or partition that the user named is missing.
    """
    there = origin.partitions()
    known_topics = {topic for topic, _ in there}
    missing = [name for name in topics.names if name not in known_topics]
    absent = sorted((topics.assigned or frozenset()) - set(there))
    missing += [f"{topic}-{partition}" for topic, partition in absent]
    if missing:
        shown = shorten(" ".join(sorted(known_topics)), FOUND_LETTERS_MAX) or "none"
        raise DataUnreadable(f"there is no {', '.join(missing[:5])}; topics found: {shown}")
    return [key for key in there if key in topics]


def plan_log(options: LogOptions, filters: OffsetFilter = EVERYTHING) -> Sequence[Task]:
    """Returns the tasks of a read, each with a few ranges.

    Raises:
        DataUnreadable: there is no data, or some is known to be missing.
        OptionError: the partitions do not have a requested offset or time.
    """
    origin = open_origin(options, filters)
    keys = wanted_partitions(origin, options.topics)
    bounds = origin.bounds([key for key in keys if filters.admits(key)])
    spans = resolve(options, origin, bounds, keys)
    spans = {key: span for key, span in filters.narrowed(spans).items() if span[0] < span[1]}
    return origin.tasks(spans, options.split_bytes, options.min_partitions)


def plan_segments(options: LogOptions) -> Sequence[tuple[SegmentTask, ...]]:
    """Returns the tasks of the level `segments`. Raises DataUnreadable."""
    origin = open_origin(options)
    assert isinstance(origin, DirectoryOrigin)  # this level cannot be read from brokers
    keys = wanted_partitions(origin, options.topics)
    share = options.split_bytes or SHARE_BYTES_MIN
    return segment_tasks((r for key in keys for r in origin.copies(key)), share)


def resolve(
    options: LogOptions,
    origin: Origin,
    bounds: Mapping[TopicPartition, Bounds],
    keys: Sequence[TopicPartition],
) -> dict[TopicPartition, Span]:
    """Returns [start, end) of each partition according to the options. Raises OptionError or DataUnreadable."""
    resolving = Resolving(
        "kafka_log",
        origin.offsets_at,
        bounds,
        frozenset(keys),
        options.strict_times,
        options.fail_on_data_loss,
    )
    return resolving.spans(options.starting, options.ending)
