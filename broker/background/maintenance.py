"""Periodic work of a broker: checkpoints, retention, the removal of lagging followers from ISRs.

Source: the background tasks of Kafka's `LogManager` and `ReplicaManager`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import trio

from trimaran.broker import events
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime.pacing import Paced, run_paced
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import yield_to_loop

log = logging.getLogger(__name__)

# The number of segments (with four files each) removed from a log in one step: 10 ms of work.
SEGMENTS_AT_ONCE = 100
# The delay after startup, like Kafka's log.initial.task.delay.ms: short, so that a broker whose disk is full deletes
# old segments before it fails.
FIRST_RETENTION_SECONDS = 30.0
# The extra time for which a deleted file may remain after its delay.
PURGE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class MaintenanceTimes:
    """The intervals and delays in seconds: Kafka's replica.high.watermark.checkpoint.interval.ms,
    log.retention.check.interval.ms, replica.lag.time.max.ms, producer.id.expiration.check.interval.ms,
    log.segment.delete.delay.ms, log.flush.scheduler.interval.ms.
    """

    checkpoint: float = 5.0
    retention: float = 300.0
    replica_lag_max: float = 30.0
    producer_expiration: float = 600.0
    delete_delay: float = 60.0
    flush: float = math.inf


class Maintenance:
    """Runs all periodic work until cancelled. A storage error only ends the current round; the watcher of the
    directories stops the broker.
    """

    def __init__(
        self,
        partitions: Partitions,
        directories: LogDirectories,
        times: MaintenanceTimes,
        now_ms: Callable[[], int],
        cleaner: Callable[[], CleanerSettings] = CleanerSettings,
    ) -> None:
        self._cleaner = LogCleaner(partitions, directories, cleaner, now_ms)
        self._partitions = partitions
        self._directories = directories
        self._times = times
        self._now_ms = now_ms
        # Logs with unsynced records, and the time of the first round that found them.
        self._unflushed_since: WeakKeyDictionary[PartitionLog, int] = WeakKeyDictionary()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._checkpoint)
            nursery.start_soon(self._retain)
            nursery.start_soon(self._purge)
            nursery.start_soon(self._drop_lagging)
            nursery.start_soon(self._expire_producers)
            nursery.start_soon(self._flush)
            nursery.start_soon(self._cleaner.run)

    async def _checkpoint(self) -> None:
        while True:
            await trio.sleep(self._times.checkpoint)
            try:
                watermarks = await run_paced(self._partitions.watermarks())
                await self._directories.save_checkpoints(watermarks)
            except KafkaError as error:
                events.MAINTENANCE_CHECKPOINTS_FAILED.log(log, error=error)

    async def _retain(self) -> None:
        await trio.sleep(min(FIRST_RETENTION_SECONDS, self._times.retention))
        while True:
            await self.retain_once()
            await trio.sleep(self._times.retention)

    async def retain_once(self) -> int:
        """Applies retention; returns the number of removed segments. Unused logs are only opened if segments may be
        due.
        """
        await self._open_due()
        count = 0
        async for partition in Paced(self._partitions):
            partition_log = partition.open_log
            if partition_log is None:
                continue
            try:
                count += await self._shorten(partition_log, partition)
            except KafkaError as error:
                events.MAINTENANCE_RETENTION_FAILED.log(log, partition=partition.name, error=error)
        return count

    async def _shorten(self, partition_log: PartitionLog, partition: Partition) -> int:
        """Applies retention to a few segments at a time."""
        count, removed = 0, SEGMENTS_AT_ONCE
        while removed == SEGMENTS_AT_ONCE:
            now_ms = self._now_ms()
            dating = partition_log.date_oldest(now_ms, SEGMENTS_AT_ONCE)
            try:
                await run_paced(dating)
            except KafkaError as error:
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    break  # truncated or closed meanwhile; the next round retries
                raise
            removed = partition_log.apply_retention(
                now_ms, partition.high_watermark, SEGMENTS_AT_ONCE
            )
            count += removed
            if count >= SEGMENTS_AT_ONCE:
                await yield_to_loop()
        return count

    async def _purge(self) -> None:
        while True:
            await trio.sleep(PURGE_SECONDS)
            await self.purge_once()

    async def purge_once(self) -> None:
        """Unlinks the files that were deleted long enough ago."""
        try:
            await self._directories.purge(round(self._times.delete_delay * 1000))
        except KafkaError as error:
            events.MAINTENANCE_DELETION_FAILED.log(log, error=error)

    async def _expire_producers(self) -> None:
        while True:
            await trio.sleep(self._times.producer_expiration)
            await self.expire_producers_once()

    async def expire_producers_once(self) -> None:
        """Removes producers that have been idle for too long."""
        async for partition in Paced(self._partitions):
            if (partition_log := partition.open_log) is not None:
                partition_log.remove_expired_producers(self._now_ms())

    async def _flush(self) -> None:
        while True:
            await trio.sleep(self._times.flush)
            await self.flush_once()

    async def flush_once(self) -> None:
        """Requests a flush of logs whose records have been unsynced for `flush.ms`, which write-behind does not
        flush.
        """
        async for partition in Paced(self._partitions):
            partition_log = partition.open_log
            if partition_log is not None and self._flush_is_due(partition_log):
                partition.services.commit.flush_soon(partition_log)

    def _flush_is_due(self, partition_log: PartitionLog) -> bool:
        if partition_log.flushed_offset >= partition_log.log_end_offset:
            self._unflushed_since.pop(partition_log, None)
            return False
        since = self._unflushed_since.setdefault(partition_log, self._now_ms())
        if self._now_ms() - since < partition_log.config.flush_ms:
            return False
        # Records appended after this flush get their own deadline.
        del self._unflushed_since[partition_log]
        return True

    async def _open_due(self) -> None:
        resting = []
        async for partition in Paced(self._partitions):
            if partition.open_log is None:
                directory = self._directories.holding(partition.topic_partition)
                if directory is not None and directory.offline is None:
                    resting.append((directory, partition, partition.settings.log))
        async for partition in Paced(await run_blocking(_due, resting, self._now_ms())):
            if partition.deleted:
                continue
            try:
                if partition.must_check:
                    await partition.check()
                _ = partition.log
            except KafkaError as error:
                events.MAINTENANCE_RETENTION_FAILED.log(log, partition=partition.name, error=error)

    async def _drop_lagging(self) -> None:
        """Drops lagging followers within half the allowed lag after it was exceeded, as in Kafka."""
        while True:
            await trio.sleep(self._times.replica_lag_max / 2)
            async for partition in Paced(self._partitions):
                partition.drop_lagging_followers()


def _due(
    resting: Sequence[tuple[LogDirectory, Partition, LogConfig]], now_ms: int
) -> list[Partition]:
    """Returns the partitions whose files are old or large enough that retention or compaction may be due. Blocks."""
    due = []
    for directory, partition, config in resting:
        try:
            files = directory.segment_files(partition.topic_partition)
        except OSError:
            continue  # the next opening reports the error
        oldest_ms = min((file.modified_ms for file in files), default=now_ms)
        is_old = 0 <= config.retention_ms < now_ms - oldest_ms
        is_large = 0 <= config.retention_bytes < sum(file.size for file in files)
        has_sealed = len(files) > 1
        if is_old or is_large or (config.compacts and has_sealed):
            due.append(partition)
    return due
