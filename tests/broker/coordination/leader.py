"""A partition of a coordinator's topic over a real log; the test controls its leadership and commits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trimaran.log.batches.batch import BatchView
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import AppendInfo, PartitionLog
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError


def open_log(path: Path) -> PartitionLog:
    path.mkdir()
    return PartitionLog.open(path, LogConfig(), LastRun(clean_shutdown=True), now_ms=now_ms())


class Leader:
    """A `CoordinatorPartition`; while `holding`, the watermark does not move until `commit`."""

    def __init__(self, log: PartitionLog, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.high_watermark = Watermark(log.log_end_offset)
        self.holding = False
        self.failing: ErrorCode | None = None
        self.left = 0  # appends for which no request waits

    def append(
        self, records: memoryview, views: Sequence[BatchView], *, is_awaited: bool = True
    ) -> AppendInfo:
        if self.high_watermark.closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.failing is not None:
            raise KafkaError(self.failing)
        info = self.log.append_as_leader(
            records, list(views), leader_epoch=self.epoch, now_ms=now_ms()
        )
        self.left += not is_awaited
        if not self.holding:
            self.commit()
        return info

    def expedite(self) -> None:
        self.left = 0

    def delete_records_before(self, offset: int) -> int:
        if self.failing is not None:
            raise KafkaError(self.failing)
        self.log.delete_records_before(offset)
        return offset

    def commit(self) -> None:
        self.high_watermark.advance(self.log.log_end_offset)
