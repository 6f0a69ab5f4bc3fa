"""Conditions of a query that reduce what is read: on topic, partition, offset and timestamp.

Spark applies all conditions again, so only data that certainly does not match is omitted here. A condition on
timestamps omits batches, by their largest timestamp; the others omit whole partitions and ranges of offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from trimaran.spark.origins.origin import Span
from trimaran.wire.identity import Offset, TopicPartition

Value = object


@dataclass(frozen=True, slots=True)
class OffsetFilter:
    """Offsets [start, end) of the partitions with one of the named topics and numbers; None means any."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: Offset = Offset(0)
    end: Offset = Offset(1 << 63)
    timestamp_ms: int | None = None  # the lowest timestamp

    def admits(self, key: TopicPartition) -> bool:
        topic, partition = key
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def narrowed(self, spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, Span]:
        """Returns the parts of the spans that may contain matching rows."""
        return {
            key: Span(max(start, self.start), min(end, self.end))
            for key, (start, end) in spans.items()
            if self.admits(key)
        }

    def equal(self, column: str, values: frozenset[Value]) -> OffsetFilter:
        """Adds a condition: the column has one of these values."""
        if column == "topic":
            topics = frozenset(v for v in values if isinstance(v, str))
            return replace(self, topics=topics if self.topics is None else self.topics & topics)
        numbers = frozenset(v for v in values if isinstance(v, int))
        if column == "partition":
            known = self.partitions
            return replace(self, partitions=numbers if known is None else known & numbers)
        if column == "offset" and numbers:
            return self.at_least("offset", min(numbers)).at_most("offset", max(numbers))
        return self

    def at_least(self, column: str, value: Value) -> OffsetFilter:
        """Adds a condition: the column is at least this value."""
        if column == "offset" and isinstance(value, int):
            return replace(self, start=max(self.start, Offset(value)))
        if column == "timestamp" and isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            least = (
                int(aware.timestamp() * 1000) - 1
            )  # one millisecond less, since floats are rounded
            return replace(self, timestamp_ms=max(self.timestamp_ms or least, least))
        return self

    def at_most(self, column: str, value: Value) -> OffsetFilter:
        """Adds a condition: the column is at most this value."""
        if column == "offset" and isinstance(value, int):
            return replace(self, end=min(self.end, Offset(value + 1)))
        return self


EVERYTHING = OffsetFilter()
