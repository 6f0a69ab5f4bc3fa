"""Search of offsets by timestamp: the time index yields a position, headers yield a batch, records yield an offset.

Source: Kafka's `UnifiedLog.fetchOffsetByTimestamp`, `LogSegment.findOffsetByTimestamp`. Only one batch is decompressed.

A client chooses the timestamps of its records: if they decrease, the time index has few entries, and many headers must
be read. The client also determines the size of a decompressed batch. A look-up is therefore a generator: its caller
chooses the thread (`resolve`):

```
yields int          the number of headers read
yields Candidate    a batch to search: the caller sends back the result of `find`, or throws its error
```

Between two steps the log may change, but must not be closed. If a segment was removed, the look-up continues with the
segment that now has its offsets: compaction has moved its records there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from trimaran.log.batches.batch import (
    ATTRIBUTES_COMPRESSION,
    HEADER_BYTES,
    MAGIC,
    BatchView,
    Buffer,
)
from trimaran.log.batches.record_search import PIECE_BYTES, FoundRecord, find_record, search_pieces
from trimaran.log.batches.records import RECORDS_BYTES_MAX
from trimaran.log.codecs.output import OutputTooLarge
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.old_formats.message_sets import inner_messages, iter_messages
from trimaran.log.segments.in_steps import largest_timestamp, rebuild_in_steps, sound_index
from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.log.segments.segment import LOG_SUFFIX, Segment, SegmentDamaged
from trimaran.log.segments.segments import Segments
from trimaran.log.steps import Steps, TakesLong
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_TIMESTAMP, LeaderEpoch, Offset, Position

# The largest batch that is searched without a thread: a tenth of a millisecond.
SMALL_BYTES = 16 << 10


class TimestampOffset(NamedTuple):
    """The result of ListOffsets."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


class CandidateBatch(NamedTuple):
    """A batch that contains the searched record, if any of its records at or above `start_offset` has at least
    `timestamp_ms`.

    It stays readable while it is referenced, even after its segment was deleted, and can be read by any thread.
    """

    files: Files
    file: OpenFile
    position: Position
    header: BatchView
    timestamp_ms: int
    start_offset: Offset

    @property
    def is_small(self) -> bool:
        """Whether its records are small and not compressed, so their size is known from the header."""
        header = self.header
        packed = header.attributes & ATTRIBUTES_COMPRESSION
        return header.magic >= MAGIC and not packed and header.size <= SMALL_BYTES

    def find(self) -> TimestampOffset | None:
        """Reads and searches its records; takes up to a second, unless it `is_small`.

        Raises:
            KafkaError: MESSAGE_TOO_LARGE: the record is not within the first `RECORDS_BYTES_MAX` decompressed bytes;
                UNSUPPORTED_COMPRESSION_TYPE.
            SegmentDamaged; OSError.
        """
        place = f"{self.file.path}, position {self.position}"
        try:
            found = self._find()
        except OutputTooLarge as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{place}: {error}") from None
        except RemoteProtocolError as error:
            raise SegmentDamaged(f"{place}: {error}") from None
        return found and TimestampOffset(found.timestamp_ms, found.offset, self.header.leader_epoch)

    def _find(self) -> FoundRecord | None:
        header, wanted = self.header, (self.timestamp_ms, self.start_offset)
        if header.magic >= MAGIC and not header.attributes & ATTRIBUTES_COMPRESSION:
            return search_pieces(header, self._body(), *wanted)
        if header.size > RECORDS_BYTES_MAX:
            raise OutputTooLarge(f"a batch of {header.size} bytes, {RECORDS_BYTES_MAX} are read")
        batch = read_batch(self.files, self.file, self.position, header.size)
        if batch is None:
            raise RemoteProtocolError("the file ends inside of the batch")
        if header.magic < MAGIC:
            return _find_message(batch, *wanted)
        return find_record(batch, *wanted, RECORDS_BYTES_MAX)

    def _body(self) -> Iterator[Buffer]:
        """Yields the uncompressed records, piece by piece."""
        end = self.position + self.header.size
        for at in range(self.position + HEADER_BYTES, end, PIECE_BYTES):
            yield self.files.pread(self.file, min(PIECE_BYTES, end - at), at)


def _find_message(batch: BatchView, timestamp_ms: int, start_offset: Offset) -> FoundRecord | None:
    """Finds the record in a batch of v0 or v1 as `find_record` does."""
    for outer in iter_messages(batch.buffer):
        for message in inner_messages(outer) if outer.is_compressed else (outer,):
            if message.timestamp_ms >= timestamp_ms and message.offset >= start_offset:
                return FoundRecord(message.timestamp_ms, message.offset)
    return None


TimestampLookup: TypeAlias = Generator[
    int | CandidateBatch, TimestampOffset | None, TimestampOffset | None
]


def resolve(lookup: TimestampLookup, headers_max: int | None = None) -> TimestampOffset | None:
    """Runs a look-up to its end.

    Raises:
        TakesLong: `headers_max` is given, and more headers must be read or a batch is not small.
    """
    found: TimestampOffset | None = None
    done = 0
    while True:
        try:
            step = lookup.send(found)
        except StopIteration as end:
            result: TimestampOffset | None = end.value
            return result
        found = None
        if isinstance(step, int):
            done += step
        if headers_max is not None and (
            done > headers_max or (isinstance(step, CandidateBatch) and not step.is_small)
        ):
            lookup.close()
            raise TakesLong
        if isinstance(step, CandidateBatch):
            try:
                found = step.find()
            except Exception as error:
                lookup.throw(error)
                raise


def find_timestamp(
    segments: Segments, timestamp_ms: int, start_offset: Offset, index_interval: int
) -> TimestampLookup:
    """Finds the first record at or above `start_offset` with a timestamp of at least `timestamp_ms`.

    Raises SegmentDamaged, OSError, and thrown exceptions.
    """
    for segment in _current_segments(segments, start_offset):
        if not segment.size:
            continue
        if (yield from largest_timestamp(segment, index_interval)) < timestamp_ms:
            continue
        if not segments.holds(segment):
            continue
        yield from sound_index(segment, index_interval)
        if not segments.holds(segment):
            continue
        start = yield from _start_position(segment, timestamp_ms, index_interval)
        above_start = segments.holds(segment) and segment.locate(start_offset, index_interval)
        if above_start is False or above_start is None:
            continue
        file, start = segment.file, max(start, above_start)
        for position, header in scan_headers(segment.files, file, start, segment.size):
            yield 1
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                found = yield CandidateBatch(
                    segment.files, file, position, header, timestamp_ms, start_offset
                )
                if found is not None:
                    return found
    return None


def _current_segments(segments: Segments, offset: Offset) -> Iterator[Segment]:
    """Yields the segments that hold `offset` or more. If a segment is removed meanwhile, yields those that have its
    offsets now.
    """
    while True:
        segment = segments.all[max(0, bisect_right(segments.bases, offset) - 1)]
        yield segment
        if not segment.removed:
            following = bisect_right(segments.bases, segment.base_offset)
            if following == len(segments):
                return
            offset = segments.bases[following]


def find_max_timestamp(segments: Segments, index_interval: int) -> TimestampLookup:
    """Finds the first record with the largest timestamp of the log, unless compaction removed it.

    Raises SegmentDamaged, OSError, and thrown exceptions.
    """
    largest = yield from _newest_of(segments, index_interval)
    while largest is not None and largest.removed:
        largest = yield from _newest_of(segments, index_interval)
    if largest is None:
        return None
    files, file, timestamp = largest.files, largest.file, largest.max_timestamp
    start = largest.locate(largest.max_timestamp_offset, index_interval)
    for position, header in scan_headers(files, file, start or 0, largest.size):
        if not header.count:
            return None  # compaction left only the header; Kafka does not find a record either
        found = yield CandidateBatch(files, file, position, header, timestamp, largest.base_offset)
        if found is not None:
            return found
        break
    raise SegmentDamaged(f"{largest.path(LOG_SUFFIX)}: no record has its largest timestamp")


def _newest_of(segments: Segments, index_interval: int) -> Steps[Segment | None]:
    largest: Segment | None = None
    for segment in _current_segments(segments, Offset(0)):
        if not segment.size:
            continue
        timestamp = yield from largest_timestamp(segment, index_interval)
        if timestamp > (NO_TIMESTAMP if largest is None else largest.max_timestamp):
            largest = segment
    return largest


def offsets_before(
    segments: Sequence[Segment], timestamp_ms: int | None, start_offset: Offset, end_offset: Offset
) -> Steps[list[Offset]]:
    """Returns the base offsets of the segments last written at or before `timestamp_ms` (None: all segments), and the
    log's end; descending.

    This is the answer of ListOffsets v0, which predates the time index and has the granularity of segments. Raises
    OSError.
    """
    segments = tuple(segments)
    last = len(segments)
    if timestamp_ms is not None:
        while last and (
            segments[last - 1].removed or _modified_ms(segments[last - 1]) > timestamp_ms
        ):
            yield 1
            last -= 1
    found = [max(segment.base_offset, start_offset) for segment in segments[:last]]
    if timestamp_ms is None and segments[-1].size:
        found.append(end_offset)
    return found[::-1]


def _modified_ms(segment: Segment) -> int:
    return segment.files.status(segment.path(LOG_SUFFIX)).modified_ms if segment.exists else 0


def _start_position(segment: Segment, timestamp_ms: int, index_interval: int) -> Steps[Position]:
    """Returns the position of a batch before which every record is earlier; the index entry used is checked against its
    batch.
    """
    for _ in range(2):
        if segment.removed:
            return Position(0)
        try:
            entry = segment.time_index.floor(timestamp_ms)
        except IndexDamaged:
            yield from rebuild_in_steps(segment, index_interval)
            continue
        if entry is None:
            return Position(0)
        indexed_timestamp, relative_offset = entry
        offset = segment.base_offset + relative_offset
        position = segment.locate(offset, index_interval)
        if position is not None:
            for _, header in scan_headers(segment.files, segment.file, position, segment.size):
                if header.last_offset == offset and header.max_timestamp == indexed_timestamp:
                    return position
                break
        yield from rebuild_in_steps(segment, index_interval)
    return Position(0)
