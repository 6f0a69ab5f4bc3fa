"""Bounds of a read: Spark's Kafka options, parsed and then resolved to offsets by an origin.

Source: `KafkaOffsetRangeLimit` and `KafkaSourceProvider` of spark-sql-kafka-0-10: a time for all partitions takes
precedence over times by partition, which take precedence over offsets; a choice by partition must name all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimaran.spark.options import (
    EARLIEST,
    LATEST,
    LONG_MAX,
    OptionError,
    OptionReader,
    between,
    duration_seconds,
    positive,
)
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.origin import Bounds, Span
from trimaran.wire.identity import Offset, TopicPartition

ByPartition = Mapping[TopicPartition, int]
# The type of `Origin.offsets_at`.
OffsetsAt = Callable[[ByPartition], Mapping[TopicPartition, Offset | None]]
BATCH_OPTIONS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_OPTIONS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
TRIGGER_DELAY = 15 * 60.0  # Spark's default of maxTriggerDelay, in seconds
NO_CHOICE: ByPartition = {}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of one of four kinds: `edge` (earliest or latest), offsets by partition, a time for all, times by
    partition.

    `option` is the name that the user wrote.
    """

    option: str
    edge: int = EARLIEST
    offsets: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps: ByPartition = field(default_factory=dict)

    @property
    def is_earliest(self) -> bool:
        """Whether the limit is the beginning of the log."""
        is_edge = self.timestamp_ms is None and not self.offsets and not self.timestamps
        return is_edge and self.edge == EARLIEST


def starting_limit(o: OptionReader, default: str) -> Limit:
    """Returns the first of `startingTimestamp`, `startingOffsetsByTimestamp` and `startingOffsets` that is given."""
    edges = (
        {"earliest": EARLIEST}
        if default == "earliest"
        else {"earliest": EARLIEST, "latest": LATEST}
    )
    return _limit(o, "starting", edges, edges[default], allowed=EARLIEST)


def ending_limit(o: OptionReader) -> Limit:
    """Returns the first of `endingTimestamp`, `endingOffsetsByTimestamp` and `endingOffsets` that is given."""
    return _limit(o, "ending", {"latest": LATEST}, LATEST, allowed=LATEST)


def _limit(
    o: OptionReader, side: str, edges: Mapping[str, int], default: int, *, allowed: int
) -> Limit:
    one, by_time, by_offset = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    timestamp = o.parse(one, _timestamp, None, "milliseconds since 1970")
    timestamps = o.parse(by_time, _times, NO_CHOICE, 'JSON such as {"orders":{"0":1700000000000}}')
    words = " or ".join(edges)
    special = {v: w for w, v in {"earliest": EARLIEST, "latest": LATEST}.items()}
    expected = f'{words} or JSON such as {{"orders":{{"0":23,"1":{allowed}}}}} ({allowed} is {special[allowed]})'
    if len(edges) == 2:
        allowed = EARLIEST  # a stream may begin at either edge; -2 is the smallest
    limit = o.parse(
        by_offset, _offsets(by_offset, edges, allowed), Limit(by_offset, default), expected
    )
    if timestamp is not None:
        return Limit(one, default, timestamp_ms=timestamp)
    return Limit(by_time, default, timestamps=timestamps) if timestamps else limit


def _timestamp(text: str) -> int | None:
    return between(0, LONG_MAX)(text)


def _times(text: str) -> ByPartition:
    found = by_partition(text)
    if not found or not all(0 <= time <= LONG_MAX for time in found.values()):
        raise ValueError(text)
    return found


def _offsets(option: str, edges: Mapping[str, int], allowed: int) -> Callable[[str], Limit]:
    def convert(text: str) -> Limit:
        if text.strip().lower() in edges:
            return Limit(option, edges[text.strip().lower()])
        found = by_partition(text)
        wrong = {EARLIEST, LATEST} - {allowed} if len(edges) == 1 else set()
        if not found or any(offset < EARLIEST or offset in wrong for offset in found.values()):
            raise ValueError(text)
        return Limit(option, offsets={key: Offset(offset) for key, offset in found.items()})

    return convert


def by_partition(text: str) -> ByPartition:
    """Parses `{"topic":{"0":23}}`. Raises ValueError, TypeError or AttributeError for any other text."""
    found = {}
    for topic, partitions in json.loads(text).items():
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool):
                raise ValueError(text)
            found[TopicPartition(topic, int(partition))] = number
    return found


def as_json(offsets: ByPartition) -> dict[str, dict[str, int]]:
    """Formats offsets as Spark's Kafka source does: `{"topic":{"0":23}}`."""
    written: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(partition)] = offset
    return written


def from_json(written: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, Offset]:
    """Parses the JSON of `as_json`."""
    return {
        TopicPartition(t, int(p)): Offset(offset)
        for t, by_number in written.items()
        for p, offset in by_number.items()
    }


@dataclass(frozen=True, slots=True)
class Resolving:
    """Resolves limits to offsets of partitions.

    Args:
        bounds: the bounds of the partitions to resolve; other partitions of `keys` were filtered out.
        keys: the partitions that a choice by partition must name.
        strict_times: a time that no record has reached is an error for a start (`…ByTimestampStrategy`); for an end it
            always means the latest offset.
        fail_on_data_loss: an offset outside of the bounds raises DataUnreadable; otherwise the nearest offset is used.
    """

    source: str
    offsets_at: OffsetsAt
    bounds: Mapping[TopicPartition, Bounds]
    keys: frozenset[TopicPartition]
    strict_times: bool = True
    fail_on_data_loss: bool = True

    def start(self, limit: Limit) -> dict[TopicPartition, Offset]:
        """Returns the first offset of each partition. Raises OptionError or DataUnreadable."""
        return self._within(self._resolve(limit, is_start=True), limit)

    def spans(self, starting: Limit, ending: Limit) -> dict[TopicPartition, Span]:
        """Returns the offsets of each partition between both limits.

        Raises:
            OptionError: as `start` does, or a partition would begin after its end.
            DataUnreadable: as `start` does.
        """
        for key in starting.timestamps.keys() & ending.timestamps.keys():
            if starting.timestamps[key] > ending.timestamps[key]:
                raise OptionError(
                    f"{self.source}: {key[0]}-{key[1]}: {starting.option} {starting.timestamps[key]} is later than "
                    f"{ending.option} {ending.timestamps[key]}"
                )
        starts = self._resolve(starting, is_start=True)
        ends = self._resolve(ending, is_start=False)
        for key, start in starts.items():
            if start > ends[key]:
                bounds = self.bounds[key]
                raise OptionError(
                    f"{self.source}: {key[0]}-{key[1]}: {starting.option} begins at offset {start}, behind offset "
                    f"{ends[key]}, where {ending.option} ends (the log has the offsets {bounds.start} to "
                    f"{bounds.end}): choose a start that is not above the end"
                )
        starts, ends = self._within(starts, starting), self._within(ends, ending)
        return {key: Span(start, ends[key]) for key, start in starts.items()}

    def _resolve(self, limit: Limit, *, is_start: bool) -> dict[TopicPartition, Offset]:
        """Returns the offsets that the limit means, in the bounds or outside."""
        if limit.timestamp_ms is not None:
            return self._at_times(dict.fromkeys(self.bounds, limit.timestamp_ms), limit, is_start)
        if limit.timestamps:
            self._ensure_all_named(limit.option, limit.timestamps)
            times = {key: limit.timestamps[key] for key in self.bounds}
            return self._at_times(times, limit, is_start)
        if limit.offsets:
            self._ensure_all_named(limit.option, limit.offsets)
            return {key: self._meant(key, limit.offsets[key]) for key in self.bounds}
        return {key: self._meant(key, limit.edge) for key in self.bounds}

    def _meant(self, key: TopicPartition, wanted: int) -> Offset:
        bounds = self.bounds[key]
        if wanted in (EARLIEST, LATEST):
            return bounds.start if wanted == EARLIEST else bounds.end
        return Offset(wanted)

    def _ensure_all_named(self, option: str, given: ByPartition) -> None:
        missing, unknown = sorted(self.keys - given.keys()), sorted(given.keys() - self.keys)
        hint = "; -2 is the earliest offset, -1 the latest" if option.endswith("Offsets") else ""
        if missing:
            raise OptionError(
                f"{self.source}: option {option}: it must name all partitions or none; "
                f"{_named(missing)} missing{hint}"
            )
        if unknown:
            raise OptionError(
                f"{self.source}: option {option}: {_named(unknown)} not among the partitions being read"
            )

    def _within(
        self, offsets: Mapping[TopicPartition, Offset], limit: Limit
    ) -> dict[TopicPartition, Offset]:
        """Returns the nearest offsets in the bounds. Raises DataUnreadable for an offset outside if data loss fails."""
        for key, offset in offsets.items():
            bounds = self.bounds[key]
            if not bounds.start <= offset <= bounds.end:
                lose(
                    f"{self.source}: option {limit.option}: {key[0]}-{key[1]} has the offsets {bounds.start} to "
                    f"{bounds.end}, {offset} is outside of them",
                    fail=self.fail_on_data_loss,
                )
        return {
            key: min(max(offset, self.bounds[key].start), self.bounds[key].end)
            for key, offset in offsets.items()
        }

    def _at_times(
        self, times: ByPartition, limit: Limit, is_start: bool
    ) -> dict[TopicPartition, Offset]:
        resolved = {}
        for key, offset in self.offsets_at(times).items():
            if offset is None and is_start and self.strict_times:
                raise OptionError(
                    f"{self.source}: option {limit.option}: {key[0]}-{key[1]} has no record of {times[key]} ms or "
                    "later; startingOffsetsByTimestampStrategy=latest begins at its end instead"
                )
            bounds = self.bounds[key]
            resolved[key] = (
                bounds.end if offset is None else min(max(offset, bounds.start), bounds.end)
            )
        return resolved


def _named(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in partitions[:5])
    if len(partitions) > 5:
        return f"{shown} and {len(partitions) - 5} more are"
    return f"{shown} {'is' if len(partitions) == 1 else 'are'}"


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Admission control of a stream: the largest and smallest number of offsets in a micro-batch. After `delay_seconds`
    it may have fewer.
    """

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_seconds: float = TRIGGER_DELAY


def stream_limits(o: OptionReader) -> StreamLimits:
    most = o.parse("maxOffsetsPerTrigger", positive, 0, "a number above 0")
    least = o.parse("minOffsetsPerTrigger", positive, 0, "a number above 0")
    delay = o.parse(
        "maxTriggerDelay", duration_seconds, TRIGGER_DELAY, "a time such as 15m or 500ms"
    )
    if most and least > most:
        raise o.wrong("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, {most}")
    return StreamLimits(most or None, least or None, delay)
