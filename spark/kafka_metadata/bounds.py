"""The bounds that `kafka_metadata` shares with `kafka_log`, resolved to offsets of one metadata log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trimaran.log.batches.batch import BatchView
from trimaran.spark.data_source.limits import ByPartition, OffsetsAt, Resolving
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.origins.directories.directory_origin import offset_among, offset_at
from trimaran.spark.origins.directories.discovery import METADATA_TOPIC
from trimaran.spark.origins.directories.replicas import StoredReplica
from trimaran.spark.origins.origin import Bounds, Span
from trimaran.wire.identity import Offset, TopicPartition

KEY = TopicPartition(METADATA_TOPIC, 0)


def span(options: MetadataOptions, bounds: Bounds, offsets_at: OffsetsAt) -> Span:
    """Returns [start, end) according to the options. Raises OptionError; DataUnreadable if those offsets are
    missing.
    """
    resolving = Resolving(
        "kafka_metadata",
        offsets_at,
        {KEY: bounds},
        frozenset((KEY,)),
        options.strict_times,
        options.fail_on_data_loss,
    )
    return resolving.spans(options.starting, options.ending)[KEY]


def times_among(batches: Callable[[], Iterable[BatchView]], bounds: Bounds) -> OffsetsAt:
    """Returns a function that finds offsets by time; it reads the batches when it is called."""

    def offsets_at(times: ByPartition) -> dict[TopicPartition, Offset | None]:
        return {KEY: offset_among(batches(), times[KEY], bounds)}

    return offsets_at


def span_of(options: MetadataOptions, replica: StoredReplica, bounds: Bounds) -> Span:
    """Returns `span` for a directory."""

    def offsets_at(times: ByPartition) -> dict[TopicPartition, Offset | None]:
        return {KEY: offset_at(replica, times[KEY], bounds)}

    return span(options, bounds, offsets_at)
