"""The settings of a share group's deliveries, and the limits of the values in requests."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class AcquireMode(IntEnum):
    """The meaning of a fetch's `max_records` (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Whole batches are acquired, so more records may be acquired than asked for."""
    RECORD_LIMIT = 1
    """No more records are acquired than asked for."""


class AcknowledgeType(IntEnum):
    """The member's decision about delivered records."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    """The record shall be delivered again."""
    REJECT = 3
    """The record shall not be delivered again."""
    RENEW = 4
    """The member still works on the record: its lock is extended (KIP-1222)."""


class SharingRules(NamedTuple):
    """The settings of a share group at this moment.

    If `dead_letters`, records that are rejected or delivered too often go to a dead-letter queue (KIP-1191).
    """

    record_locks_max: int = 2_000
    deliveries_max: int = 5
    lock_seconds: float = 30.0
    renews: bool = True
    dead_letters: bool = False

    @property
    def throttled_deliveries(self) -> int:
        """The number of deliveries from which a record is delivered with fewer others each time: a record that makes
        its consumers fail then affects few others.
        """
        return max(2, -(-self.deliveries_max // 2))

    @property
    def delivers_last_alone(self) -> bool:
        """Whether a record is delivered alone the last time."""
        return self.deliveries_max > 2
