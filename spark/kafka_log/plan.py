"""Plans a read on the driver: partitions and bounds from the origin, and ranges for the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

from trimaran.spark.data_source.conditions import NO_CONDITIONS, Conditions
from trimaran.spark.data_source.limits import Resolving
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.segments import segment_tasks
from trimaran.spark.options import TopicsWanted
from trimaran.spark.origins.directories.directory_origin import DirectoryOrigin
from trimaran.spark.origins.origin import Bounds, DataUnreadable, Origin, Range, Span
from trimaran.spark.origins.packing import SHARE_BYTES_MIN
from trimaran.spark.origins.running_cluster.brokers import BrokerOrigin
from trimaran.wire.identity import TopicPartition

log = logging.getLogger(__name__)
Task = Iterable[Range]
FOUND_LETTERS_MAX = 300  # characters of topic names in an error


def open_origin(options: LogOptions, conditions: Conditions = NO_CONDITIONS) -> Origin:
    """Returns the origin that the options name. Raises DataUnreadable, OptionError."""
    if options.cluster is not None:
        return BrokerOrigin(options.cluster, committed=options.committed)
    assert options.directories is not None
    return DirectoryOrigin(
        options.directories, lambda key: key in options.topics and conditions.admits(key)
    )


def wanted_partitions(
    origin: Origin, topics: TopicsWanted, *, fail: bool = True
) -> list[TopicPartition]:
    """Returns the partitions of the origin that the user chose.

    Raises:
        DataUnreadable: a topic or partition that the user named is missing; without `fail` this is a warning.
    """
    there = origin.partitions()
    known_topics = {topic for topic, _ in there}
    missing = [name for name in topics.names if name not in known_topics]
    absent = sorted((topics.assigned or frozenset()) - set(there))
    missing += [f"{topic}-{partition}" for topic, partition in absent]
    if missing:
        shown = shorten(" ".join(sorted(known_topics)), FOUND_LETTERS_MAX) or "none"
        why = f"there is no {', '.join(missing[:5])}; topics found: {shown}"
        if fail:
            raise DataUnreadable(why)
        log.warning("left out: %s", why)
    return [key for key in there if key in topics]


class Plan(NamedTuple):
    """The tasks of a read, each with a few ranges or segments, and how much of the data they read."""

    tasks: Sequence[Iterable[Any]]
    summary: str


def plan_log(options: LogOptions, conditions: Conditions = NO_CONDITIONS) -> Plan:
    """Plans a read of the parts that may have matching records.

    Raises:
        DataUnreadable: there is no data, or some is known to be missing.
        OptionError: the partitions do not have a requested offset or time.
    """
    origin = open_origin(options, conditions)
    keys = wanted_partitions(origin, options.topics)
    bounds = origin.bounds([key for key in keys if conditions.admits(key)])
    spans = resolve(options, origin, bounds, keys)
    parts = {key: found for key, span in spans.items() if (found := conditions.parts(key, span))}
    tasks = origin.tasks(parts, options.split_bytes, options.min_partitions)
    return Plan(tasks, origin.summary(tasks))


def plan_segments(options: LogOptions, conditions: Conditions = NO_CONDITIONS) -> Plan:
    """Plans a read of the level `segments`. Raises DataUnreadable."""
    origin = open_origin(options, conditions)
    assert isinstance(origin, DirectoryOrigin)  # this level cannot be read from brokers
    keys = [key for key in wanted_partitions(origin, options.topics) if conditions.admits(key)]
    share = options.split_bytes or SHARE_BYTES_MIN
    tasks = segment_tasks((r for key in keys for r in origin.copies(key)), share)
    segments = sum(len(task) for task in tasks)
    return Plan(tasks, f"topics {len({topic for topic, _ in keys})}, segments {segments}")


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
