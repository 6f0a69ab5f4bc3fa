"""The base of the streams of both formats: offsets as in Spark's Kafka source, admission control, data loss.

An offset such as `{"topic":{"0":23}}` is the next one to read. New partitions are read from their beginning. Offsets
that retention deleted before they were read, or that no longer exist, are data loss; so is a topic that was deleted and
created again: the new one is read from its beginning. A partition that was missing for a time continues. Source:
`KafkaMicroBatchStream` of spark-sql-kafka-0-10, which does not detect recreated topics, and reads a partition that
returns from its beginning.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from trimaran.spark.data_source.limits import StreamLimits, as_json
from trimaran.spark.data_source.shipped import Shipped
from trimaran.spark.data_source.stream_offsets import (
    Offsets,
    StreamOffsets,
    StreamSurvey,
    TopicIds,
    Written,
)
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.options import tell
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.origin import Span
from trimaran.wire.identity import Offset, TopicPartition

log = logging.getLogger(__name__)

Spans = dict[TopicPartition, Span]


class FailedStreamReader(DataSourceStreamReader):
    """Replaces a reader that could not be created: PySpark reports only errors of a reader's methods."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        return self._fail()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._fail()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._fail()
        raise AssertionError

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._fail()
        raise AssertionError

    def read(self, partition: InputPartition) -> Any:
        self._fail()

    def _fail(self) -> dict[str, Any]:
        with without_frames():
            raise self._error


class OffsetStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over partitions with offsets; subclasses define the bounds and the work of a task.

    Only the driver has state: the time of the last micro-batch, the end for `Trigger.AvailableNow`, and the losses and
    topics that it has reported.
    """

    def __init__(
        self, limits: StreamLimits, *, fail_on_data_loss: bool, notes: Sequence[str] = ()
    ) -> None:
        self._limits = limits
        self._untold = notes
        self._fail_on_data_loss = fail_on_data_loss
        self._target: Offsets | None = None
        self._last_given = time.monotonic()
        self._latest: Offsets | None = None
        self._unchecked: set[str] = set()  # topics without a known id that were reported
        self._gone: set[TopicPartition] = set()  # partitions that were missing the last time

    @abstractmethod
    def starting_offsets(self) -> StreamOffsets:
        """Returns the offsets at which a stream without a checkpoint begins."""

    @abstractmethod
    def survey(self) -> StreamSurvey:
        """Returns the current bounds of all partitions of the stream, and the ids of their topics."""

    @abstractmethod
    def tasks(self, spans: Spans, topic_ids: TopicIds) -> Sequence[Any]:
        """Plans the reading of the offsets that still exist (`there`); returns a value for each task.

        Args:
            topic_ids: the topics for which the spans were planned.
        """

    def initialOffset(self) -> Written:
        with without_frames():
            return self.starting_offsets().written()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._limits.offsets_max is not None:
            return ReadMaxRows(self._limits.offsets_max)
        if self._limits.offsets_min is not None:
            return ReadMinRows(self._limits.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with without_frames():
            self._target = {key: bounds.end for key, bounds in self.survey().bounds.items()}

    def reportLatestOffset(self) -> Written | None:
        return None if self._latest is None else as_json(self._latest)

    def latestOffset(self, start: Written, limit: ReadLimit) -> Written:
        tell(self._untold)  # not in the constructor: PySpark creates a second reader
        self._untold = ()
        with without_frames():
            survey, known = self.survey(), StreamOffsets.parse(start)
            begun = self._begun(known, survey)
            self._latest = {key: max(b.end, begun[key]) for key, b in survey.bounds.items()}
            ends = self._admitted(begun, self._ends(), limit)
            # A missing partition keeps its offset, to continue when it returns, unless its topic was recreated.
            recreated = known.recreated_in(survey.topic_ids)
            gone = {k: at for k, at in known.offsets.items() if k.topic not in recreated}
            ids = {**known.topic_ids, **survey.topic_ids}
            return StreamOffsets({**gone, **ends}, ids).written()

    def _ends(self) -> Offsets:
        assert self._latest is not None
        if self._target is None:
            return self._latest
        return {
            k: min(end, self._target[k]) for k, end in self._latest.items() if k in self._target
        }

    def _begun(self, start: StreamOffsets, survey: StreamSurvey) -> dict[TopicPartition, Offset]:
        """Returns the offset at which each partition continues. Raises DataUnreadable if records were lost
        meanwhile.
        """
        recreated = start.recreated_in(survey.topic_ids)
        for topic in recreated:
            self._lost(
                f"{_recreated(topic, start.topic_ids, survey.topic_ids)}: the rest of the old topic is lost, and the "
                "new one is read from its beginning"
            )
        self._report_unchecked(start, survey.topic_ids)
        before = {key: at for key, at in start.offsets.items() if key.topic not in recreated}
        gone = before.keys() - survey.bounds.keys()
        for key in sorted(gone - self._gone):
            self._lost(
                f"{key[0]}-{key[1]} is gone, offsets from {before[key]} on may have been missed"
            )
        self._gone = gone
        begun = {}
        for key, bound in survey.bounds.items():
            known = before.get(key)
            if known is None:
                if bound.start > 0:
                    self._lost(
                        f"{key[0]}-{key[1]} is new and begins at offset {bound.start}, not 0"
                    )
                begun[key] = bound.start
            elif known < bound.start:
                self._lost(
                    f"{key[0]}-{key[1]}: offsets {known} to {bound.start - 1} were deleted before they were read"
                )
                begun[key] = bound.start
            else:
                end = bound.end if bound.log_end is None else bound.log_end
                if known > end:
                    self._lost(
                        f"{key[0]}-{key[1]} ends at offset {end}, and was read up to {known}: it was cut, or "
                        f"deleted and created again; it is read on from offset {end}"
                    )
                begun[key] = min(known, end)
        return begun

    def _report_unchecked(self, start: StreamOffsets, now: TopicIds) -> None:
        """Warns once about topics whose recreation cannot be detected, because the checkpoint or the logs lack their
        ids.
        """
        topics = {key.topic for key in start.offsets} - start.topic_ids.keys() - self._unchecked
        if topics:
            self._unchecked |= topics
            where = "the checkpoint has" if topics & now.keys() else "checkpoint and logs have"
            log.warning(
                "%s no topic id of %s: a topic that was deleted and created again since then is not noticed",
                where,
                ", ".join(sorted(topics)),
            )

    def there(self, spans: Spans, topic_ids: TopicIds, survey: StreamSurvey) -> Spans:
        """Returns the offsets of a micro-batch that still exist. An earlier run may have planned the micro-batch long
        ago, for the topics with these ids.

        Raises DataUnreadable if records were lost meanwhile.
        """
        found: Spans = {}
        recreated = StreamOffsets({}, topic_ids).recreated_in(survey.topic_ids)
        for key, (start, end) in sorted(spans.items()):
            name, bound = f"{key[0]}-{key[1]}", survey.bounds.get(key)
            if key.topic in recreated:
                what = _recreated(key.topic, topic_ids, survey.topic_ids)
                self._lost(f"{what}: offsets {start} to {end - 1} of {name} were not read")
                continue
            if bound is None:
                self._lost(f"{name} is gone, offsets {start} to {end - 1} were not read")
                continue
            begin = min(max(start, bound.start), end)
            if start < begin:
                self._lost(
                    f"{name}: offsets {start} to {begin - 1} were deleted before they were read"
                )
            if bound.log_end is not None and bound.log_end < end:
                self._lost(
                    f"{name} ends at offset {bound.log_end}, offsets up to {end - 1} were to be read: it was cut, or "
                    "deleted and created again"
                )
                end = bound.log_end
            if begin < end:
                found[key] = Span(begin, end)
        return found

    def _lost(self, what: str) -> None:
        lose(f"since the checkpoint: {what}", fail=self._fail_on_data_loss)

    def _admitted(
        self, begun: Offsets, ends: Offsets, limit: ReadLimit
    ) -> dict[TopicPartition, Offset]:
        """Returns the end of the next micro-batch; `begun` if there are too few offsets for one."""
        waiting = sum(max(0, end - begun[key]) for key, end in ends.items())
        if self._is_too_little(waiting, limit):
            return dict(begun)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._last_given = time.monotonic()
        if most is None or waiting <= most:
            return {**begun, **{key: max(end, begun[key]) for key, end in ends.items()}}
        return {**begun, **shared(begun, ends, most)}

    def _is_too_little(self, waiting: int, limit: ReadLimit) -> bool:
        least = self._limits.offsets_min
        if isinstance(limit, ReadAllAvailable) or self._target is not None or least is None:
            return False
        is_due = time.monotonic() - self._last_given >= self._limits.delay_seconds
        return waiting < least and not is_due

    def partitions(self, start: Written, end: Written) -> Sequence[InputPartition]:
        with without_frames():
            begun, ends = StreamOffsets.parse(start), StreamOffsets.parse(end)
            # New partitions, and those of a new topic, are read from their beginning.
            recreated = begun.recreated_in(ends.topic_ids)
            before = {key: at for key, at in begun.offsets.items() if key.topic not in recreated}
            spans = {
                key: Span(before.get(key, Offset(0)), stop)
                for key, stop in ends.offsets.items()
                if before.get(key, 0) < stop
            }
            return (
                [InputPartition(task) for task in self.tasks(spans, ends.topic_ids)]
                if spans
                else []
            )

    def commit(self, end: Written) -> None:
        """Does nothing: there is no consumer group."""

    def stop(self) -> None:
        """Does nothing: no connection outlives a call."""


def _recreated(topic: str, then: TopicIds, now: TopicIds) -> str:
    return f"{topic} was deleted and created again (its id was {then[topic]}, it is {now[topic]})"


def shared(begun: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, Offset]:
    """Returns ends that together admit about `most` offsets: each partition in proportion to its waiting records, at
    least one.
    """
    waiting = {key: end - begun[key] for key, end in ends.items() if end > begun[key]}
    total = sum(waiting.values())
    return {
        key: begun[key] + min(size, max(1, size * most // total)) for key, size in waiting.items()
    }
