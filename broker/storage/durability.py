"""How far a log is as durable as the configuration asks: what may be reported to others."""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.log.disk.health import DirectoryHealth
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime.group_commit import GroupCommit, OnFlushed

# Of a log directory. All that an fdatasync may have to wait for: more makes those slow who wait for theirs, and a
# producer no faster, as the disk is not.
UNFLUSHED_BYTES_MAX = 1 << 20


class Durability:
    """Says up to where a log is as durable as `trimaran.log.fsync` asks.

    `commit` (the default): on disk, by group commit. `none`: written, as in Apache Kafka; a power cut may take records
    that were acknowledged, a killed process does not.
    """

    def __init__(self, commits: Mapping[DirectoryHealth, GroupCommit], *, fsync: bool) -> None:
        """`commits`: of each log directory, by what its logs share: found by identity, as it is asked for at each
        append.
        """
        self._commits = commits
        self._fsync = fsync

    def durable_end(self, log: PartitionLog) -> int:
        """The end (exclusive) of what may be reported to others."""
        return log.flushed_offset if self._fsync else log.log_end_offset

    def mark_dirty(
        self,
        log: PartitionLog,
        on_flushed: OnFlushed,
        written: int = 0,
        *,
        is_awaited: bool = True,
    ) -> None:
        """As `GroupCommit.mark_dirty`."""
        self._commits[log.health].mark_dirty(log, on_flushed, written, is_awaited=is_awaited)

    def hasten(self, log: PartitionLog) -> None:
        """As `GroupCommit.hasten`."""
        self._commits[log.health].hasten(log)

    def is_behind(self, log: PartitionLog) -> bool:
        """Whether more of the log's directory is not on disk yet than may be without somebody waiting for it."""
        return self._commits[log.health].unflushed_bytes > UNFLUSHED_BYTES_MAX

    async def wait_flushed(self, log: PartitionLog, offset: int) -> None:
        """As `GroupCommit.wait_flushed`."""
        await self._commits[log.health].wait_flushed(log, offset)

    def flush_soon(self, log: PartitionLog) -> None:
        """As `GroupCommit.flush_soon`."""
        self._commits[log.health].flush_soon(log)

    def forget(self, log: PartitionLog) -> None:
        self._commits[log.health].forget(log)
