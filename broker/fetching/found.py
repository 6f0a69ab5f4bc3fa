"""The result of polling one partition of a fetch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker.fetching.slots import Slot
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.messages.fetch import PartitionData


class Unlisted(NamedTuple):
    """A log whose aborted transactions take long to find, and its `removals` when the records were read."""

    log: PartitionLog
    removals: int


@dataclass(slots=True)
class Found:
    """The result of the last poll of a slot; `size` of the records; `urgent` ends the wait."""

    data: PartitionData
    size: int
    urgent: bool = False
    again: bool = False  # must be looked at by the next request whatever happens
    watermark: int = -1
    log_start_offset: int = -1
    leader: PartitionLeader | None = None  # the source of records
    unlisted: Unlisted | None = None


def is_news(slot: Slot, found: Found) -> bool:
    """Whether an incremental fetch tells it: the session has not heard of it (KIP-227)."""
    return bool(
        found.size
        or found.urgent
        or found.watermark != slot.sent_watermark
        or found.log_start_offset != slot.sent_log_start
    )
