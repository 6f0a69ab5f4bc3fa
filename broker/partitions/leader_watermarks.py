"""The watermarks of one leader epoch: the committed end, and the log start of all live replicas.

Source: `Partition.maybeIncrementLeaderHW`, `Partition.lowWatermarkIfLeader` of Kafka.
"""

from __future__ import annotations

from trimaran.broker.partitions.in_sync_replicas import InSyncReplicas
from trimaran.broker.partitions.isr import next_high_watermark
from trimaran.broker.partitions.replica import Replica
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.identity import NO_OFFSET, Offset


class LeaderWatermarks:
    """The high and low watermark of one leader epoch; they advance with `in_sync` and the flushes of `replica`, until
    `close`.
    """

    __slots__ = ("_in_sync", "_log", "_replica", "_services", "high", "low")

    def __init__(self, replica: Replica, in_sync: InSyncReplicas) -> None:
        self._replica = replica
        self._services = replica.services
        self._log = replica.log
        self._in_sync = in_sync
        self.high = Watermark(replica.watermark_in_log())
        self.low = Watermark(NO_OFFSET)

    def advance_high(self) -> None:
        own_end = self._services.commit.durable_end(self._log)
        if own_end <= self.high.offset:  # the progress of other replicas does not matter
            return
        offset = self._next_high(own_end)
        if offset > self.high.offset:
            self.high.advance(offset)
            self._replica.watchers.watermark_moved()

    @property
    def high_when_flushed(self) -> Offset:
        """The high watermark that will be reached when everything written here is on disk, as in Kafka, which does not
        wait for flushes.
        """
        return self._next_high(self._log.log_end_offset)

    def _next_high(self, own_end: Offset) -> Offset:
        """Returns the next high watermark if this replica counts with `own_end`."""
        in_sync, current = self._in_sync, self.high.offset
        if in_sync.is_under_min:
            # Otherwise too few replicas would acknowledge acks=all. Also, a replica that has left the ISR may still be
            # elected, because it has all records committed so far; therefore no further records may be committed
            # (KIP-966).
            return current
        return next_high_watermark(
            current, own_end, in_sync.followers, in_sync.maximal, in_sync.about_to_join
        )

    def advance_low(self) -> None:
        """Advances the low watermark to the lowest log start of the live replicas."""
        brokers = self._services.metadata.image.cluster.brokers
        start = self._log.log_start_offset
        for replica_id, progress in self._in_sync.followers.items():
            broker = brokers.get(replica_id)
            if broker is not None and not broker.fenced:
                start = min(start, progress.log_start_offset)
        self.low.advance(max(start, self.low.offset))

    def close(self) -> None:
        """Closes both watermarks: waiting tasks get NotLeaderError."""
        for watermark in (self.high, self.low):
            watermark.close()
