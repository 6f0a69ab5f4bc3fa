"""The readable part of a partition's log: from its start on, by offset and by time.

Source: the reading half of Kafka's `UnifiedLog`. Errors: as in `LocalLog`.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.config import LogConfig
from trimaran.log.disk.files import Files
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.local_log import LocalLog
from trimaran.log.partitions.timestamps import (
    TimestampLookup,
    TimestampOffset,
    find_max_timestamp,
    find_timestamp,
    offsets_before,
    resolve,
)
from trimaran.log.segments.index import IndexLost
from trimaran.log.segments.segment import Segment, SegmentDamaged
from trimaran.log.segments.slices import LogSlice
from trimaran.log.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset


class ReadableLog(LocalLog):
    """The offsets [log_start_offset, log_end_offset); readers cannot see records below the start."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        segments: list[Segment],
        epochs: LeaderEpochs,
        *,
        files: Files,
        health: DirectoryHealth,
    ) -> None:
        """Takes the arguments of `LocalLog`. The log starts at 0 until `PartitionLog` advances it."""
        super().__init__(directory, config, segments, epochs, files=files, health=health)
        self.log_start_offset = Offset(0)

    def read(
        self, offset: Offset, max_bytes: int, *, upto_offset: Offset, min_one: bool
    ) -> LogSlice | None:
        """Returns whole batches of one segment from the one with `offset` on, at most `max_bytes`, all below
        `upto_offset`.

        `upto_offset` is the high watermark, last stable offset or log end, read once by the caller (KAFKA-9807). With
        `min_one` the first batch is returned even if it is larger than `max_bytes`.

        Returns:
            None if there are no such batches.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE: below the log's start or above its end; KAFKA_STORAGE_ERROR.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
            )
        if offset >= upto_offset or offset == self.log_end_offset:
            return None
        self.health.check()
        try:  # `_lookup` inlined: its call would double the time
            upto = min(upto_offset, self.log_end_offset)
            return self._read(offset, max_bytes, upto, min_one=min_one)
        except (SegmentDamaged, IndexLost) as damage:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage)) from damage
        except OSError as error:
            raise self.health.fail(f"read in {self.directory}: {error}") from error

    def read_bytes(self, offset: Offset, max_bytes: int, *, upto_offset: Offset) -> bytes:
        """Returns a copy of the result of `read` with `min_one`; empty if there is none."""
        piece = self.read(offset, max_bytes, upto_offset=upto_offset, min_one=True)
        if piece is None:
            return b""
        with self.storage(f"read of {self.directory}"):
            return piece.read()

    def look_up_timestamp(self, timestamp_ms: int) -> TimestampLookup:
        """Returns (timestamp, offset, leader epoch) of the first record with a timestamp of at least `timestamp_ms`."""
        with self._lookup("timestamp lookup"):
            return (
                yield from find_timestamp(
                    self._segments,
                    timestamp_ms,
                    self.log_start_offset,
                    self.config.index_interval_bytes,
                )
            )

    def look_up_max_timestamp(self) -> TimestampLookup:
        """Returns (timestamp, offset, leader epoch) of the first record with the largest timestamp (KIP-734)."""
        with self._lookup("timestamp lookup"):
            return (yield from find_max_timestamp(self._segments, self.config.index_interval_bytes))

    def offset_for_timestamp(
        self, timestamp_ms: int, headers_max: int | None = None
    ) -> TimestampOffset | None:
        """Returns the result of `look_up_timestamp`, without steps. Raises TakesLong as `resolve`."""
        return resolve(self.look_up_timestamp(timestamp_ms), headers_max)

    def max_timestamp_offset(self, headers_max: int | None = None) -> TimestampOffset | None:
        """Returns the result of `look_up_max_timestamp`, without steps. Raises TakesLong as `resolve`."""
        return resolve(self.look_up_max_timestamp(), headers_max)

    def offsets_before(self, timestamp_ms: int | None) -> Steps[list[Offset]]:
        """Returns the offsets for ListOffsets v0, see `trimaran.log.partitions.timestamps.offsets_before`."""
        with self._lookup("offset lookup"):
            return (
                yield from offsets_before(
                    self._segments.all, timestamp_ms, self.log_start_offset, self.log_end_offset
                )
            )
