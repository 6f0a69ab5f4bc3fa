"""Decides, without I/O, which records of a share group one run of a consumer delivers, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trimaran.wire.identity import Offset, TopicIdPartition

# Records that the run only looks at are given back this many seconds before their lock ends, so that they are never
# delivered to the run again: a fetch waits half a second, and the last request takes some time.
SECONDS_BEFORE_LOCK = 2.0


@dataclass
class ShareRun:
    """A run over the partitions of a topic.

    Args:
        ends: the end of each partition that the run reads to; partitions without one are read without end.
        gives_back: the run only looks at records, each once, and keeps them until its end, which gives them back.
    """

    ends: Mapping[int, Offset] = field(default_factory=dict)
    gives_back: bool = False
    _reached: set[int] = field(default_factory=set, init=False)
    # Bounded by the records in flight of the partitions, since a kept record stays in flight.
    _kept: set[tuple[TopicIdPartition, Offset]] = field(default_factory=set, init=False)
    _kept_until: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        self._reached |= {partition for partition, end in self.ends.items() if end <= 0}

    def wants(self, partition: TopicIdPartition, offset: Offset) -> bool:
        """Notes a record that was acquired; returns whether the run delivers it."""
        end = self.ends.get(partition.partition)
        if end is not None and offset + 1 >= end:
            self._reached.add(partition.partition)
            if offset >= end:
                return False
        if not self.gives_back:
            return True
        is_new = (partition, offset) not in self._kept
        self._kept.add((partition, offset))
        return is_new

    def locked(self, until: float) -> None:
        """Notes the end of a lock of delivered records, in seconds of the clock of `is_over`."""
        if self.gives_back:
            self._kept_until = min(self._kept_until, until - SECONDS_BEFORE_LOCK)

    def is_over(self, assigned: Collection[TopicIdPartition], now: float) -> bool:
        """Returns whether there is nothing left to read: all partitions are read to their end, or locks end soon."""
        if self.has_locks_ending(now):
            return True
        return bool(assigned) and all(key.partition in self._reached for key in assigned)

    def has_locks_ending(self, now: float) -> bool:
        return now >= self._kept_until
