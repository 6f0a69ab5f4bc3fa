"""Compacts logs in a thread, one after the other, the dirtiest first.

Source: `LogCleaner`, `LogCleanerManager` of Kafka. The event loop chooses a log, plans the round and swaps segments;
the thread reads and writes (`trimaran.log.compaction.cleaning`). A log that cannot be compacted (damaged, or with a
batch too large for the map) is logged once and skipped until it is opened again. Not implemented: `log.cleaner.threads`
above 1: the threads would share one interpreter lock, so a second one would not be faster, but would need a second
offset map.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet

import trio

from trimaran.broker import events
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.compaction.choosing import Dirt
from trimaran.log.compaction.cleaning import CleanerLimits, CleaningStopped, Uncleanable
from trimaran.log.compaction.planning import dirt_of, plan_round
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime.pacing import Paced
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import Offset

log = logging.getLogger(__name__)
T = TypeVar("T")

# Limits for `log.cleaner.io.buffer.load.factor`: Kafka accepts any value, but the map must have some free space and
# hold some entries.
_FULL_MIN, _FULL_MAX = 0.01, 0.99


# The largest number of rounds of other logs before a failed one is tried again: a log that always fails wastes one
# round in 65.
ROUNDS_BEFORE_MAX = 64


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Kafka's log.cleaner.enable, .backoff.ms (here seconds), .dedupe.buffer.size and .io.buffer.load.factor,
    .io.max.bytes.per.second.
    """

    enabled: bool = True
    backoff: float = 15.0
    limits: CleanerLimits = field(default_factory=CleanerLimits)
    bytes_per_second_max: float = float("inf")

    @classmethod
    def of(cls, configs: NodeConfigs) -> CleanerSettings:
        """Returns the current settings; all except `enabled` may be altered while the broker runs."""
        return cls(
            enabled=configs.now("log.cleaner.enable"),
            backoff=configs.now("log.cleaner.backoff.ms") / 1000,
            limits=CleanerLimits(
                configs.now("log.cleaner.dedupe.buffer.size"),
                min(max(configs.now("log.cleaner.io.buffer.load.factor"), _FULL_MIN), _FULL_MAX),
            ),
            bytes_per_second_max=configs.now("log.cleaner.io.max.bytes.per.second"),
        )


class Pace:
    """Limits the rate of a round, and can stop it."""

    def __init__(self, bytes_per_second_max: float) -> None:
        self.bytes_per_second_max = bytes_per_second_max
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def pause(self, size: int) -> None:
        """Called in the thread after `size` bytes were read or written. Raises CleaningStopped if the round has been
        stopped.
        """
        if self._stopped.wait(size / self.bytes_per_second_max):
            raise CleaningStopped("the broker stops, or the replica is gone")


@dataclass(slots=True)
class _Postponed:
    """A log whose last round failed. It is tried again after `rounds_before` rounds of other logs; after another
    failure, after `rounds_next` rounds. Each failure doubles the number, up to `ROUNDS_BEFORE_MAX`.
    """

    rounds_before: int = 0
    rounds_next: int = 1

    def fail(self) -> None:
        self.rounds_before = self.rounds_next
        self.rounds_next = min(2 * self.rounds_next, ROUNDS_BEFORE_MAX)


class LogCleaner:
    """Compacts logs until cancelled, one round at a time."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        directories: LogDirectories,
        settings: Callable[[], CleanerSettings],
        now_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._directories = directories
        self._settings = settings  # called in each round, because settings may change
        self._now_ms = now_ms
        self._uncleanable: WeakSet[PartitionLog] = WeakSet()
        self._postponed: WeakKeyDictionary[PartitionLog, _Postponed] = WeakKeyDictionary()
        self._pace = Pace(settings().bytes_per_second_max)

    async def run(self) -> None:
        if not self._settings().enabled:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_thread_at_the_end)
            while True:
                if not await self.clean_dirtiest():
                    await trio.sleep(self._settings().backoff)

    async def _stop_thread_at_the_end(self) -> None:
        """Stops the thread by a flag, since it cannot be cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            self._pace.stop()

    async def clean_dirtiest(self) -> bool:
        """Compacts one log if one needs it; returns whether it did."""
        found = await self._choose()
        if found is None and any(waiting.rounds_before for waiting in self._postponed.values()):
            for waiting in self._postponed.values():
                waiting.rounds_before = 0
            found = await self._choose()
        if found is None:
            return False
        partition, partition_log, dirt = found
        try:
            await self._clean(partition, partition_log, dirt)
        except CleaningStopped as why:
            events.COMPACTION_POSTPONED.log(log, partition=partition.name, reason=why)
            self._postponed.setdefault(partition_log, _Postponed()).fail()
            return False
        except MemoryError as error:
            events.COMPACTION_OUT_OF_MEMORY.log(log, partition=partition.name, error=error)
            self._postponed.setdefault(partition_log, _Postponed()).fail()
            return False
        except Uncleanable as why:
            events.COMPACTION_STOPPED.log(log, partition=partition.name, error=why)
            self._uncleanable.add(partition_log)
        except KafkaError as error:
            events.COMPACTION_STOPPED.log(log, partition=partition.name, error=error)
            self._uncleanable.add(partition_log)
        self._postponed.pop(partition_log, None)
        for waiting in self._postponed.values():
            waiting.rounds_before = max(0, waiting.rounds_before - 1)
        return True

    async def _choose(self) -> tuple[Partition, PartitionLog, Dirt] | None:
        best: tuple[Partition, PartitionLog, Dirt] | None = None
        async for partition in Paced(self._partitions):
            partition_log = partition.open_log
            if partition_log is not None and partition_log.config.compacts:
                dirt = self._dirt(partition, partition_log)
                if dirt is not None and (best is None or dirt.ratio > best[2].ratio):
                    best = partition, partition_log, dirt
        if best is None or best[0].open_log is not best[1]:
            return None
        return best

    def _dirt(self, partition: Partition, partition_log: PartitionLog) -> Dirt | None:
        """Returns the uncompacted part of a log, or None if the log must not be compacted now."""
        directory = self._directories.holding(partition.topic_partition)
        if directory is None or directory.offline is not None:
            return None
        waiting = self._postponed.get(partition_log)
        if partition_log in self._uncleanable or (waiting is not None and waiting.rounds_before):
            return None
        key = partition.topic_partition
        try:
            dirt = dirt_of(
                partition_log,
                cleaned_to=directory.offsets.cleaner_offsets.get(key),
                high_watermark=partition.high_watermark,
                now_ms=self._now_ms(),
            )
        except KafkaError as error:
            events.COMPACTION_FAILED.log(log, partition=partition.name, error=error)
            return None
        return dirt if dirt.is_due(partition_log.config) else None

    async def _clean(self, partition: Partition, partition_log: PartitionLog, dirt: Dirt) -> None:
        settings = self._settings()
        self._pace.bytes_per_second_max = settings.bytes_per_second_max
        cleaning = plan_round(
            partition_log,
            dirt,
            limits=settings.limits,
            map_key=os.urandom(16),
            now_ms=self._now_ms(),
            pause=self._pace.pause,
        )

        truncations = partition_log.truncations

        def check_log() -> None:
            if partition.open_log is not partition_log or partition_log.truncations != truncations:
                raise CleaningStopped("the log was cut or closed meanwhile")

        async def in_thread(step: Callable[[], T]) -> T:
            try:
                return await run_blocking(_guarded, partition_log, step)
            except Uncleanable:
                check_log()  # a log truncated during a read is not damaged
                raise

        end_offset = await in_thread(cleaning.build_map)
        check_log()
        await self._settle(partition, partition_log, end_offset)
        for sources in await in_thread(partial(cleaning.groups, end_offset)):
            cleaned = await in_thread(partial(cleaning.clean, sources))
            try:
                check_log()
                if not partition_log.replace_segments(
                    [source.segment for source in sources], cleaned
                ):
                    raise CleaningStopped("its segments changed meanwhile")
            except CleaningStopped:
                await in_thread(partial(cleaning.discard, cleaned))
                raise
        await in_thread(partial(_sync_names, partition_log))
        await self._note(partition, end_offset, check_log)
        events.COMPACTION_DONE.log(
            log,
            partition=partition.name,
            offset=end_offset,
            bytes_read=cleaning.bytes_read,
            bytes_written=cleaning.bytes_written,
        )

    async def _settle(
        self, partition: Partition, partition_log: PartitionLog, end_offset: Offset
    ) -> None:
        """Makes the log durable and writes checkpoints before compaction: recovery would treat the gaps of a compacted
        log above the recovery point as losses.
        """
        directory = self._directories.holding(partition.topic_partition)
        if directory is None:
            raise CleaningStopped("the replica is gone")
        if partition_log.flushed_offset < end_offset:
            await _flush(partition_log)
        while not await run_blocking(directory.write_checkpoints, directory.collect_checkpoints()):
            pass  # rare: a truncation in between requires a retry

    async def _note(
        self, partition: Partition, end_offset: Offset, check_log: Callable[[], None]
    ) -> None:
        """Writes the cleaner checkpoint; writes it again after a truncation in between, while the log is still the
        cleaned one.
        """
        key = partition.topic_partition
        is_written = False
        while not is_written:
            check_log()
            directory = self._directories.holding(key)
            if directory is None:
                return
            collected = directory.offsets.collect_cleaned({key: end_offset})
            is_written = await run_blocking(directory.write_checkpoints, collected)


def _guarded(partition_log: PartitionLog, step: Callable[[], T]) -> T:
    """Runs a step in the thread. A disk error takes the directory offline; the error of a partition deleted meanwhile
    stops the round.
    """
    with partition_log.storage(f"compaction of {partition_log.directory.name}"):
        try:
            return step()
        except FileNotFoundError as missing:
            if partition_log.names.gone:
                raise CleaningStopped("the replica is gone") from missing
            raise


async def _flush(partition_log: PartitionLog) -> None:
    with partition_log.storage(f"flush of {partition_log.directory.name}"):
        flush = partition_log.prepare_flush()
        try:
            await run_blocking(flush.run)
        finally:
            partition_log.finish_flush(flush)


def _sync_names(partition_log: PartitionLog) -> None:
    """Makes the new names durable before the old files are unlinked."""
    with partition_log.names.lock:
        if not partition_log.names.gone:
            partition_log.files.fsync_directory(partition_log.directory)
