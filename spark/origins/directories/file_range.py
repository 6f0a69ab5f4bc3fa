"""Ranges of segments: reading one yields all of its batches or raises, and never silently yields fewer.

A range knows its contents: its bounds, its first batch, and whether offsets may be missing (only compaction leaves
gaps, below the cleaner's offset). A file is recognised by its content, so that copies and mounts of any kind work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trimaran.log.batches.batch import HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchView, header_at
from trimaran.log.disk.files import Files
from trimaran.log.inspection.reader import BatchStart, scan_batches
from trimaran.log.segments.scan import is_plausible, scan_headers
from trimaran.log.segments.segment import DELETED_SUFFIX, LOG_SUFFIX
from trimaran.spark.origins.damage import lose, next_sound, unreadable
from trimaran.spark.origins.directories.discovery import PartitionFound, topic_id_of
from trimaran.spark.origins.directories.transaction_outcomes import Outcomes
from trimaran.spark.origins.origin import Located, Part, Reading
from trimaran.wire.identity import NodeId, Offset, TopicPartition


@dataclass(frozen=True)
class LogFiles:
    """A partition's directory as it was planned.

    Args:
        bases: the base offsets of its segments.
        dense_from: from this offset on, no offset may be missing.
        cleaned_to: the log was compacted below this offset.
        start_offset: the first offset of the log; records below it in its first segment are deleted.
        topic_id: the id of its topic as text, empty if the directory does not have it.
    """

    found: PartitionFound
    bases: tuple[Offset, ...]
    dense_from: Offset = Offset(0)
    cleaned_to: Offset = Offset(0)
    start_offset: Offset = Offset(0)
    topic_id: str = ""

    def path(self, base_offset: Offset) -> str:
        return f"{self.found.path}/{base_offset:020d}{LOG_SUFFIX}"

    def following(self, base_offset: Offset) -> Offset | None:
        """Returns the base offset of the next segment."""
        index = self.bases.index(base_offset) + 1
        return self.bases[index] if index < len(self.bases) else None


def is_out_of_time(batch: BatchView, part: Part) -> bool:
    """Whether no record of the batch has a wanted time.

    The header has the largest time; it is that of all records if the log set it, or if there is only one.
    """
    if part.min_ms is not None and batch.max_timestamp < part.min_ms:
        return True
    is_time_of_all = batch.count == 1 or batch.timestamp_type == LOG_APPEND_TIME
    return (
        part.max_ms is not None
        and batch.magic >= MAGIC
        and is_time_of_all
        and batch.max_timestamp > part.max_ms
    )


@dataclass(frozen=True)
class FileRange:
    """Positions [start, end) of a segment, beginning at a batch, and the part of the partition that is wanted.

    Args:
        first: the batch at the start, None if the driver did not read it.
        is_last: the range goes up to the end of its segment.
    """

    log: LogFiles
    base_offset: Offset
    start_position: int
    end_position: int
    part: Part
    first: BatchStart | None = None
    is_last: bool = True

    @property
    def key(self) -> TopicPartition:
        return self.log.found.key

    @property
    def node_id(self) -> NodeId:
        return self.log.found.node_id

    @property
    def log_dir(self) -> str | None:
        return self.log.found.log_dir or None

    @property
    def log_start(self) -> Offset:
        return self.log.start_offset

    @property
    def start_offset(self) -> Offset:
        return self.part.start

    @property
    def end_offset(self) -> Offset:
        return self.part.end

    @property
    def size(self) -> int:
        return self.end_position - self.start_position

    @cached_property
    def path(self) -> str:
        return self.log.path(self.base_offset)

    @property
    def name(self) -> str:
        return self.log.found.storage.url(self.path)

    @property
    def files(self) -> Files:
        return self.log.found.storage.files

    def batches(self, reading: Reading) -> Iterator[Located]:
        try:
            yield from self._batches(reading)
        except OSError as error:
            lose(unreadable(error, self.name), fail=reading.fail_on_data_loss)

    def _batches(self, reading: Reading) -> Iterator[Located]:
        outcomes = Outcomes(self._scan_on) if reading.committed else None
        for located in self._walk(reading):
            batch = located.batch
            if batch.base_offset >= self.end_offset:
                return
            if batch.next_offset <= self.start_offset or is_out_of_time(batch, self.part):
                continue
            if batch.is_control:
                if reading.include_control:
                    yield located
            elif outcomes is None or not outcomes.is_aborted(located, self.base_offset, self.name):
                yield located

    def _walk(self, reading: Reading) -> Iterator[Located]:
        """Yields all batches of the range, and raises or warns at each damage and gap."""
        path = self._existing(reading)
        if path is None:
            return
        position, expected = self.start_position, self._expected()
        while position < self.end_position and expected < self.end_offset:
            for at, batch in scan_batches(
                path,
                position,
                self.end_position,
                files=self.files,
                check_crc=reading.verify_crc,
                batch_bytes_max=reading.batch_bytes_max,
            ):
                if batch.next_offset <= expected and batch.next_offset > self.base_offset:
                    break  # offsets decrease: this is a stale block of the disk
                self._ensure_none_missing(expected, batch.base_offset, reading)
                yield Located(at, batch)
                position, expected = at + batch.size, batch.next_offset
                if expected >= self.end_offset:
                    return
            if position >= self.end_position:
                break
            if (large := self._too_large(path, position, reading)) is not None:
                position, expected = position + large.size, large.next_offset
                continue
            self._tell_damage(position, expected, reading)
            file = self.files.open(path, write=False)
            sound = next_sound(self.files, file, position, self.end_position, expected)
            if sound is None:
                return
            position = sound
        self._ensure_joined(expected, reading)

    def _expected(self) -> Offset:
        """Returns the offset that the first batch must have if no gap is allowed before it."""
        if self.first is not None and self.start_position:
            return self.first.base_offset
        return self.base_offset

    def _ensure_none_missing(self, expected: Offset, found: Offset, reading: Reading) -> None:
        start, end = (
            max(expected, self.start_offset, self.log.dense_from),
            min(found, self.end_offset),
        )
        if start < end:
            lose(
                f"{self.name}: offsets {start} to {end - 1} are missing, and compaction did not take them",
                fail=reading.fail_on_data_loss,
            )

    def _ensure_joined(self, expected: Offset, reading: Reading) -> None:
        """Checks that the next segment begins where this one ended."""
        if not self.is_last or (following := self.log.following(self.base_offset)) is None:
            return
        if expected < min(following, self.end_offset) and not self._begins_below(
            following, expected
        ):
            self._ensure_none_missing(expected, following, reading)

    def _begins_below(self, following: Offset, expected: Offset) -> bool:
        """True for a segment of an old follower, which named it after the last offset of its first compressed message,
        not the first.
        """
        try:
            found = next(scan_batches(self.log.path(following), files=self.files), None)
        except OSError:
            return False
        return found is not None and found[1].base_offset <= expected

    def _tell_damage(self, position: int, expected: Offset, reading: Reading) -> None:
        lose(
            f"{self.name}: damaged at position {position}, where offset {expected} should begin: no valid batch "
            "is there",
            fail=reading.fail_on_data_loss,
        )

    def _too_large(self, path: Path, position: int, reading: Reading) -> BatchView | None:
        """Returns the batch at the position if it is omitted for its size; its CRC is not checked."""
        file = self.files.open(path, write=False)
        found = header_at(self.files.pread(file, HEADER_BYTES, position), 0)
        if found is None or not is_plausible(found) or found.size <= reading.batch_bytes_max:
            return None
        if found.size > self.files.size(file) - position:
            return None  # the batch is torn, or the bytes are not a batch
        lose(
            f"{self.name}: the batch at position {position}, offsets {found.base_offset} to {found.last_offset}, has "
            f"{found.size:,} bytes, more than maxBatchBytes ({reading.batch_bytes_max:,}): raise it, and the memory of "
            "executors with it",
            fail=reading.fail_on_data_loss,
        )
        return found

    def _existing(self, reading: Reading) -> Path | None:
        """Returns the planned file, even if retention has renamed it meanwhile; None if it is lost."""
        why = "was deleted or compacted"
        if self.log.topic_id and topic_id_of(self.log.found) not in ("", self.log.topic_id):
            lose(
                f"{self.name}: {self.key.topic} was deleted and created again since the query was planned; run it "
                "again",
                fail=reading.fail_on_data_loss,
            )
            return None
        for path in (self.path, self.path + DELETED_SUFFIX):
            try:
                size = self.files.size(self.files.open(Path(path), write=False))
            except FileNotFoundError:
                continue
            if size >= self.end_position and (
                self.first is None or self.first == self._boundary(self.start_position, path)
            ):
                return Path(path)
            why = "was compacted, cut or replaced"
            break
        lose(
            f"{self.name} {why} since the query was planned; run it again",
            fail=reading.fail_on_data_loss,
        )
        return None

    def _boundary(self, position: int, path: str) -> BatchStart | None:
        """Finds the boundary from the headers, as the driver did."""
        file = self.files.open(Path(path), write=False)
        end = self.files.size(file)
        found = next(
            scan_headers(self.files, file, position, end, first_block_bytes=HEADER_BYTES), None
        )
        return None if found is None else BatchStart(found[0], found[1].base_offset, found[1].crc)

    def _scan_on(self, base_offset: Offset, position: int) -> Iterator[Located]:
        """Yields all batches from a place to the end of the log, to find the outcomes of transactions."""
        for base in self.log.bases[self.log.bases.index(base_offset) :]:
            path = Path(self.log.path(base))
            for at, batch in scan_batches(path, position, files=self.files, check_crc=False):
                yield Located(at, batch)
            position = 0
