"""A replica that follows, as consumers read it: below the high watermark that its leader has told it (KIP-392)."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.identity import Offset


class FollowerReads(NamedTuple):
    """As far as a `PartitionLeader` serves consumers; what it says holds for one look."""

    log: PartitionLog
    committed_end: Offset

    @property
    def knows_committed(self) -> bool:
        """It never answers for more than itself: a consumer that is further waits, or asks the leader."""
        return True
