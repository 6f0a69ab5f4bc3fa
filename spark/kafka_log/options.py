"""The options of `kafka_log`, parsed once into a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimaran.spark.data_source.limits import (
    BATCH_OPTIONS,
    STREAM_OPTIONS,
    Limit,
    StreamLimits,
    ending_limit,
    starting_limit,
    stream_limits,
)
from trimaran.spark.kafka_options import READING
from trimaran.spark.options import (
    NO_NAMES,
    OptionReader,
    TopicsWanted,
    names_of,
    positive,
    topics_wanted,
)
from trimaran.spark.origins.directories.directory_origin import DirectorySettings
from trimaran.spark.origins.directories.discovery import STORAGE
from trimaran.spark.origins.origin import BATCH_BYTES_MAX
from trimaran.spark.origins.running_cluster.connection import ClusterSettings, cluster_settings

# Levels that decode an internal topic: the level determines the topic.
DECODED_TOPICS = {
    "group_offsets": "__consumer_offsets",
    "group_members": "__consumer_offsets",
    "transactions": "__transaction_state",
}
LEVELS = ("records", "batches", "segments", *DECODED_TOPICS)
ENDS = ("high_watermark", "log_end", "cleaner_offset")
DIRECTORY_OPTIONS = ("end", "replicas", "splitBytes")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of `kafka_log`; exactly one of `directories` and `cluster` is the origin."""

    directories: DirectorySettings | None
    cluster: ClusterSettings | None
    topics: TopicsWanted
    starting: Limit
    ending: Limit
    strict_times: bool
    stream: StreamLimits
    level: str
    committed: bool
    include_headers: bool
    include_batch_info: bool
    include_control: bool
    verify_crc: bool
    fail_on_data_loss: bool
    batch_bytes_max: int
    split_bytes: int | None  # None if the origin decides
    min_partitions: int
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()  # sentences about options without effect

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool = False) -> LogOptions:
        """Returns the options. Raises OptionError."""
        o = OptionReader("kafka_log", given)
        level = o.choice("level", LEVELS, "records")
        fail = o.flag("failOnDataLoss", True)
        cluster = cluster_settings(o)
        isolation = o.choice(
            "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
        )
        committed = isolation == "read_committed"
        default = "latest" if streaming else "earliest"
        strategy = o.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        parsed = cls(
            directories=None if cluster else _directories(o, committed, fail),
            cluster=cluster,
            topics=_topics(o, level),
            starting=starting_limit(o, default),
            ending=ending_limit(o),
            strict_times=strategy == "error",
            stream=stream_limits(o),
            level=level,
            committed=committed,
            include_headers=o.flag("includeHeaders", False),
            include_batch_info=o.flag("includeBatchInfo", False),
            include_control=o.flag("includeControl", False),
            verify_crc=_verify_crc(o),
            fail_on_data_loss=fail,
            batch_bytes_max=o.parse("maxBatchBytes", positive, BATCH_BYTES_MAX, "a number above 0"),
            split_bytes=o.parse("splitBytes", positive, None, "a number above 0"),
            min_partitions=o.parse("minPartitions", positive, 1, "a number above 0"),
            columns=o.parse("columns", names_of, NO_NAMES, "column names parted by commas"),
        )
        _refuse_inapplicable(o, parsed, streaming=streaming)
        idle = () if streaming else o.idle("only streams have micro-batches", *STREAM_OPTIONS)
        return replace(parsed, notes=(*idle, *o.finish(READING)))


def _verify_crc(o: OptionReader) -> bool:
    checks = o.flag("kafka.check.crcs", True)
    verifies = o.flag("verifyCrc", checks)
    if verifies and not checks:
        raise o.wrong("verifyCrc", "kafka.check.crcs is false; give one of them")
    return verifies


def _topics(o: OptionReader, level: str) -> TopicsWanted:
    wanted = topics_wanted(o)
    return TopicsWanted((DECODED_TOPICS[level],)) if level in DECODED_TOPICS else wanted


def _directories(o: OptionReader, committed: bool, fail: bool) -> DirectorySettings:
    return DirectorySettings(
        paths=o.paths(),
        storage_options=o.prefixed(STORAGE),
        end=o.choice("end", ENDS, "high_watermark"),
        replicas=o.choice("replicas", ("leader", "all"), "leader"),
        committed=committed,
        fail_on_data_loss=fail,
    )


def _refuse_inapplicable(o: OptionReader, parsed: LogOptions, *, streaming: bool) -> None:
    if parsed.level != "records":
        o.refuse(
            f"it is of level=records, this is level={parsed.level}",
            "includeHeaders",
            "includeBatchInfo",
        )
    if parsed.level in DECODED_TOPICS:
        o.refuse(
            f"level={parsed.level} reads {DECODED_TOPICS[parsed.level]}",
            *("subscribe", "subscribePattern", "assign", "includeControl"),
        )
    if parsed.level == "segments":
        o.refuse(
            "it is of records and batches, this is level=segments",
            *(
                "includeControl",
                "kafka.isolation.level",
                "splitBytes",
                "verifyCrc",
                "kafka.check.crcs",
                "minPartitions",
            ),
        )
        if parsed.cluster:
            raise o.wrong(
                "level", "brokers tell nothing of segments; a path to their directories does"
            )
    if streaming:
        o.refuse(
            "a stream has no end (Trigger.AvailableNow ends it where data ends)", *BATCH_OPTIONS
        )
        if parsed.level == "segments":
            raise o.wrong(
                "level", "segments have no offsets to go on from; read them with spark.read"
            )
        if parsed.directories and parsed.directories.replicas == "all":
            raise o.wrong(
                "replicas", "a stream has one row for a record; spark.read takes all replicas"
            )
    if parsed.cluster:
        o.refuse("it is of node directories, this reads from brokers", *DIRECTORY_OPTIONS)
