"""What every partition of this broker shares: durability, the controller's ear, clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.metadata import BrokerMetadata
from broker.partitions.isr_change import IsrChanges
from log.health import DirectoryHealth
from log.partition_log import PartitionLog
from quorum.runtime.group_commit import GroupCommit, OnFlushed
from quorum.runtime.long_lived import LongLived

if TYPE_CHECKING:
    from broker.directories import LogDirectories
    from broker.topic_settings import TopicSettingsSource


class Durability:
    """Says up to where a log is as durable as `trimaran.log.fsync` asks.

    `commit` (the default): on disk, by group commit. `none`: written, as in Apache Kafka; a power cut may take records
    that were acknowledged, a killed process does not.
    """

    def __init__(self, commits: Mapping[DirectoryHealth, GroupCommit], *, fsync: bool) -> None:
        """`commits`: of each log directory, by what its logs share: found by identity, as it is asked for at each append."""
        self._commits = commits
        self._fsync = fsync

    def durable_end(self, log: PartitionLog) -> int:
        """The end (exclusive) of what may be reported to others."""
        return log.flushed_offset if self._fsync else log.log_end_offset

    def mark_dirty(self, log: PartitionLog, on_flushed: OnFlushed) -> None:
        """As `GroupCommit.mark_dirty`."""
        self._commits[log.health].mark_dirty(log, on_flushed)

    def flush_soon(self, log: PartitionLog) -> None:
        """As `GroupCommit.flush_soon`."""
        self._commits[log.health].flush_soon(log)

    def forget(self, log: PartitionLog) -> None:
        self._commits[log.health].forget(log)


@dataclass(frozen=True, slots=True)
class Services:
    """`now` is monotonic seconds, `now_ms` the wall clock, `broker_epoch` this incarnation's (-1 before registration)."""

    node_id: int
    directories: LogDirectories
    settings: TopicSettingsSource
    commit: Durability
    isr_changes: IsrChanges
    metadata: BrokerMetadata
    broker_epoch: Callable[[], int]
    lag_seconds_max: float
    now: Callable[[], float]
    now_ms: Callable[[], int]
    long_lived: LongLived = field(default_factory=LongLived)
