"""The options of `kafka_metadata`, parsed once into a frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from trimaran.spark.data_source.limits import (
    BATCH_OPTIONS,
    Limit,
    StreamLimits,
    ending_limit,
    starting_limit,
    stream_limits,
)
from trimaran.spark.kafka_options import METADATA_READING
from trimaran.spark.options import NO_NAMES, OptionReader, names_of, positive
from trimaran.spark.origins.directories.discovery import STORAGE, StorageOptions
from trimaran.spark.origins.running_cluster.connection import (
    CONTROLLERS,
    PREFIX,
    ClusterSettings,
    cluster_settings,
)
from trimaran.wire.identity import Offset
from trimaran.wire.messages.control import ControlType
from trimaran.wire.records.registry import METADATA_RECORDS

# Metadata records are decoded one by one, so tasks are smaller than those for data.
SPLIT_BYTES = 4 << 20
NodesWanted = str | frozenset[int]  # `leader`, `all`, or node ids
LEADER: NodesWanted = "leader"


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Options of `kafka_metadata`."""

    paths: tuple[str, ...]  # empty for a running cluster
    storage_options: StorageOptions
    cluster: ClusterSettings | None
    table: str
    nodes: NodesWanted
    record_types: frozenset[str]  # empty for all topics
    topics: frozenset[str]  # empty for all types
    as_of_offset: Offset | None  # the last offset to read
    as_of_timestamp: int | None  # in milliseconds: later records are omitted
    include_control: bool
    include_uncommitted: bool
    include_snapshots: str  # needed, true, false
    verify_crc: bool
    split_bytes: int
    starting: Limit
    ending: Limit
    strict_times: bool
    stream: StreamLimits  # set only for a stream, like the fields below
    fail_on_data_loss: bool
    notes: tuple[str, ...] = ()  # sentences about options without effect

    @classmethod
    def parse(
        cls,
        given: Mapping[str, str],
        tables: Mapping[str, frozenset[str]],
        *,
        streaming: bool = False,
    ) -> MetadataOptions:
        """Parses the options; `tables` has each table with the options that affect it. Raises OptionError."""
        o = OptionReader("kafka_metadata", given)
        table = o.choice("table", tables, "records")
        cluster = cluster_settings(o, CONTROLLERS)
        if cluster:
            o.refuse(
                "a running quorum is read from its leader, up to its high watermark",
                *("nodes", "includeUncommitted", "splitBytes"),
            )
        parsed = cls(
            paths=() if cluster else o.paths(),
            storage_options=() if cluster else o.prefixed(STORAGE),
            cluster=cluster,
            table=table,
            nodes=o.parse("nodes", _nodes, LEADER, "leader, all or ids parted by commas"),
            record_types=frozenset(
                o.parse(
                    "recordTypes", _record_types, NO_NAMES, "one of " + ", ".join(record_types())
                )
            ),
            topics=frozenset(o.parse("topics", names_of, NO_NAMES, "topics parted by commas")),
            as_of_offset=o.parse("asOfOffset", _offset, None, "an offset, 0 or above"),
            as_of_timestamp=o.parse(
                "asOfTimestamp", _timestamp, None, "milliseconds, or a time as 2026-01-31T12:00:00Z"
            ),
            include_control=o.flag("includeControl", False),
            include_uncommitted=o.flag("includeUncommitted", False),
            include_snapshots=o.choice("includeSnapshots", ("needed", "true", "false"), "needed"),
            verify_crc=o.flag("verifyCrc", True),
            split_bytes=o.parse("splitBytes", positive, SPLIT_BYTES, "a number above 0"),
            starting=starting_limit(o, "latest" if streaming else "earliest"),
            ending=ending_limit(o),
            strict_times=o.choice(STRATEGY, ("error", "latest"), "error") == "error",
            stream=stream_limits(o),
            fail_on_data_loss=o.flag("failOnDataLoss", True),
        )
        _refuse_by_kind(o, table, streaming=streaming)
        notes = o.finish(METADATA_READING)
        _refuse_inapplicable(o, table, tables)
        return replace(parsed, notes=notes)


STRATEGY = "startingOffsetsByTimestampStrategy"
# For tables of records, events or intervals; an interval that overlaps them becomes a whole row.
BOUND_OPTIONS = (
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", STRATEGY),
    *BATCH_OPTIONS,
)
STREAM_OPTIONS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
)


def _refuse_by_kind(o: OptionReader, table: str, *, streaming: bool) -> None:
    if not streaming:
        o.refuse("it is of streams (spark.readStream)", *STREAM_OPTIONS)
    elif table != "records":
        raise o.wrong("table", f"a stream is of the table records; {table} tells of the whole log")
    else:
        o.refuse("a stream begins with the log, of one copy", "includeSnapshots", "nodes")
        o.refuse(
            "a stream has no end (Trigger.AvailableNow ends it where data ends)", *BATCH_OPTIONS
        )


AS_OF_OPTIONS = ("asOfOffset", "asOfTimestamp")
ANYWHERE = frozenset(("path", "paths", "table", "splitbytes", "kafkaconsumer.polltimeoutms"))


def _refuse_inapplicable(o: OptionReader, table: str, tables: Mapping[str, frozenset[str]]) -> None:
    """Refuses options that would have no effect."""
    acting = {name.lower() for name in tables[table]}
    for name, shown in o.given_names():
        if name in ANYWHERE or name in acting or shown in STREAM_OPTIONS:
            continue
        if name.startswith((PREFIX, STORAGE)):
            continue
        where = [other for other, names in tables.items() if shown in names]
        raise o.wrong(
            shown, f"it has no effect on the table {table}; it acts on {', '.join(where) or 'none'}"
        )
    ends = [shown for _, shown in o.given_names() if shown in (*AS_OF_OPTIONS, *BATCH_OPTIONS)]
    if len(ends) > 1 and set(ends) & set(AS_OF_OPTIONS):
        raise o.wrong(ends[1], f"give it or {ends[0]}, not both")


def record_types() -> tuple[str, ...]:
    """Returns the types that `recordTypes` may name: metadata records, and control records with includeControl."""
    controls = (kind.name for kind in ControlType if kind is not ControlType.UNKNOWN)
    return (*(METADATA_RECORDS[key].__name__ for key in METADATA_RECORDS), *controls)


def _record_types(text: str) -> tuple[str, ...]:
    """Returns record types by name, in any letter case; UNKNOWN_n is the type with number n of a later Kafka."""
    known = {name.lower(): name for name in record_types()}
    return tuple(
        name.upper() if re.fullmatch(r"unknown_\d+", name.lower()) else known[name.lower()]
        for name in names_of(text)
    )


def _offset(text: str) -> Offset | None:
    if (number := Offset(text)) < 0:
        raise ValueError(text)
    return number


def _timestamp(text: str) -> int | None:
    if text.lstrip("-").isdecimal():
        return int(text)
    when = datetime.fromisoformat(text)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _nodes(text: str) -> NodesWanted:
    if text.lower() in ("leader", "all"):
        return text.lower()
    return frozenset(int(number) for number in text.split(","))
